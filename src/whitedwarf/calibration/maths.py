"""Problems of mathematics with their solutions step by step; every number is worked out here, none is made up."""

from fractions import Fraction
from math import comb, gcd, isqrt
from typing import NamedTuple

from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.words import NOUNS, PEOPLE


class Problem(NamedTuple):
    """What is asked, how one comes to it, and the answer."""

    question: str
    steps: tuple[str, ...]
    answer: str


def problem(dice: Dice) -> Problem:
    """One of ten kinds."""
    kinds = (_product, _linear, _quadratic, _percent, _divisor, _counting, _rates, _sequence, _primes, _system)
    return dice.pick(kinds)(dice)


def _product(dice: Dice) -> Problem:
    a, b = dice.between(12, 999), 10 * dice.between(1, 9) + dice.between(1, 9)
    tens, ones = b // 10 * 10, b % 10
    steps = (f"{a} × {tens} = {a * tens}", f"{a} × {ones} = {a * ones}", f"{a * tens} + {a * ones} = {a * b}")
    return Problem(f"Compute {a} × {b} without a calculator.", steps, str(a * b))


def _linear(dice: Dice) -> Problem:
    a, b, c = dice.between(2, 15), dice.between(-30, 30), dice.between(-50, 90)
    x = Fraction(c - b, a)
    steps = (f"{a}x = {c} - ({b}) = {c - b}", f"x = {c - b}/{a}" + ("" if x.denominator == a else f" = {x}"))
    return Problem(f"Solve {a}x + ({b}) = {c} for x.", steps, f"x = {x}")


def _quadratic(dice: Dice) -> Problem:
    p, q = dice.between(-12, 12), dice.between(-12, 12)
    b, c = -(p + q), p * q
    root = isqrt(b * b - 4 * c)
    steps = (
        f"The discriminant is ({b})^2 - 4·({c}) = {b * b - 4 * c}, and its root is {root}.",
        f"x = (-({b}) ± {root}) / 2",
        f"x = {(-b + root) // 2} or x = {(-b - root) // 2}",
    )
    return Problem(
        f"Find all real solutions of x^2 + ({b})x + ({c}) = 0.", steps, " and ".join(map(str, sorted({p, q})))
    )


def _percent(dice: Dice) -> Problem:
    price, up, down = 20 * dice.between(4, 200), 5 * dice.between(1, 12), 5 * dice.between(1, 10)
    raised = Fraction(price * (100 + up), 100)
    final = raised * (100 - down) / 100
    noun = dice.pick(NOUNS)
    question = (
        f"A {noun} costs {price} euros. The price rises by {up} % and then falls by {down} %. What does it cost now?"
    )
    steps = (
        f"After the rise: {price} × {100 + up}/100 = {_money(raised)}",
        f"After the fall: {_money(raised)} × {100 - down}/100 = {_money(final)}",
    )
    return Problem(question, steps, f"{_money(final)} euros")


def _divisor(dice: Dice) -> Problem:
    factor = dice.between(2, 30)
    a, b = factor * dice.between(5, 60), factor * dice.between(5, 60)
    x, y, steps = max(a, b), min(a, b), []
    while y:
        steps.append(f"{x} = {x // y} · {y} + {x % y}")
        x, y = y, x % y
    steps.append(f"lcm = {a} · {b} / {x} = {a * b // x}")
    return Problem(
        f"Find the greatest common divisor and the least common multiple of {a} and {b}.",
        tuple(steps),
        f"gcd {gcd(a, b)}, lcm {a * b // gcd(a, b)}",
    )


def _counting(dice: Dice) -> Problem:
    n, k = dice.between(6, 14), dice.between(2, 5)
    who = dice.pick(PEOPLE)
    steps = (
        f"The order does not matter, so we count combinations: C({n}, {k}).",
        f"C({n}, {k}) = {' · '.join(str(n - i) for i in range(k))} / {' · '.join(str(i) for i in range(1, k + 1))}",
    )
    return Problem(
        f"{who} has {n} different books and takes {k} of them on a journey. In how many ways can they be chosen?",
        steps,
        str(comb(n, k)),
    )


def _rates(dice: Dice) -> Problem:
    first, second, hours = dice.between(40, 90), dice.between(40, 110), dice.between(2, 6)
    distance = (first + second) * hours
    question = (
        f"Two trains start towards each other from towns {distance} km apart, one at {first} km/h, the other at "
        f"{second} km/h. "
        "When and where do they meet?"
    )
    steps = (
        f"Together they cover {first} + {second} = {first + second} km each hour.",
        f"{distance} / {first + second} = {hours} hours",
        f"The first one has gone {first} · {hours} = {first * hours} km by then.",
    )
    return Problem(question, steps, f"after {hours} hours, {first * hours} km from the first town")


def _sequence(dice: Dice) -> Problem:
    start, step, count = dice.between(-9, 30), dice.between(2, 17), dice.between(10, 80)
    last = start + step * (count - 1)
    shown = ", ".join(str(start + step * i) for i in range(4))
    steps = (
        f"It is arithmetic with difference {step}; term {count} is {start} + {count - 1} · {step} = {last}.",
        f"The sum is {count} · ({start} + {last}) / 2 = {count * (start + last) // 2}.",
    )
    return Problem(
        f"What is the sum of the first {count} terms of {shown}, ...?", steps, str(count * (start + last) // 2)
    )


def _primes(dice: Dice) -> Problem:
    number = dice.between(60, 9000)
    left, factors, steps = number, [], []
    divisor = 2
    while divisor * divisor <= left:
        while left % divisor == 0:
            steps.append(f"{left} / {divisor} = {left // divisor}")
            factors.append(divisor)
            left //= divisor
        divisor += 1
    if left > 1:
        factors.append(left)
        steps.append(f"{left} has no divisor up to its root, so it is prime.")
    answer = f"{number} = {' · '.join(map(str, factors))}" if len(factors) > 1 else f"{number} is prime"
    return Problem(f"Factor {number} into primes.", tuple(steps), answer)


def _system(dice: Dice) -> Problem:
    x, y, a, b = dice.between(1, 40), dice.between(1, 40), dice.between(2, 9), dice.between(2, 9)
    one, two = dice.some(NOUNS, 2)
    question = (
        f"{x + y} tickets were sold, some for a {one} at {a} euros and some for a {two} at {a + b} euros, for "
        f"{a * x + (a + b) * y} "
        "euros in all. How many of each?"
    )
    steps = (
        f"If all were at {a} euros, that would be {a} · {x + y} = {a * (x + y)} euros.",
        f"The difference is {a * x + (a + b) * y} - {a * (x + y)} = {b * y}, and each dearer ticket adds {b}: "
        f"{b * y} / {b} = {y}.",
        f"So {x + y} - {y} = {x} were the cheaper ones.",
    )
    return Problem(question, steps, f"{x} for the {one}, {y} for the {two}")


def _money(amount: Fraction) -> str:
    cents = round(amount * 100)
    return f"{cents // 100}.{cents % 100:02}"
