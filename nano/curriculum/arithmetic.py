"""Sums, differences and products; the thought goes digit by digit from the right, with carries."""

from random import Random

from nano.curriculum.texts import Exchange
from nano.curriculum.values import digits

_SPOKEN = {"+": "plus", "-": "minus", "*": "times"}


def addition_steps(left: int, right: int) -> str:
    """`87 + 76`: 7+6=13, 8+7+1=16."""
    longer = max(len(str(left)), len(str(right)))
    carry, steps = 0, []
    for place in range(longer):
        a, b = left // 10**place % 10, right // 10**place % 10
        total = a + b + carry
        steps.append(f"{a}+{b}{f'+{carry}' if carry else ''}={total}")
        carry = total // 10
    return ", ".join(steps) + "."


def subtraction_steps(left: int, right: int) -> str:
    """`52 - 17`: 2-7=5 borrow, 5-1-1=3. Needs left >= right."""
    borrow, steps = 0, []
    for place in range(len(str(left))):
        a, b = left // 10**place % 10, right // 10**place % 10
        rest = a - b - borrow
        steps.append(f"{a}-{b}{f'-{borrow}' if borrow else ''}={rest % 10}{' borrow' if rest < 0 else ''}")
        borrow = int(rest < 0)
    return ", ".join(steps) + "."


def arithmetic(rng: Random, operation: str | None = None, digit_count: int | None = None) -> Exchange:
    """One sum in one of the usual wordings."""
    operation = operation or rng.choice("++++--*")
    if operation == "*":
        left, right = rng.randint(0, 12), rng.randint(0, 12)
        result, thought = left * right, f"{left} times {right} is {left * right}."
    else:
        counts = [digit_count or rng.choice([1, 2, 2, 2, 3]) for _ in range(2)]
        left, right = (int(digits(rng, count)) for count in counts)
        if operation == "-":
            left, right = max(left, right), min(left, right)
        result = left + right if operation == "+" else left - right
        thought = (addition_steps if operation == "+" else subtraction_steps)(left, right)
    spoken = _SPOKEN[operation]
    question = rng.choice(
        [
            f"What is {left} {operation} {right}?",
            f"{left} {operation} {right}",
            f"{left}{operation}{right}",
            f"Compute {left} {operation} {right}.",
            f"What is {left} {spoken} {right}?",
            f"How much is {left} {spoken} {right}?",
            f"{left} {operation} {right} = ?",
            f"Calculate {left}{operation}{right}",
        ]
    )
    return Exchange(question, f"{left} {operation} {right} = {result}", thought)


def two_digit_addition(rng: Random) -> Exchange:
    return arithmetic(rng, "+", 2)


def small_addition(rng: Random) -> Exchange:
    return arithmetic(rng, "+", rng.randint(1, 2))
