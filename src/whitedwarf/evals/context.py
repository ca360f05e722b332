"""How long a context an exam needs, and which one it gets (spec/product.md D.2). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT
from whitedwarf.errors import UsageError
from whitedwarf.evals.grade import ThinkMode

MOST_CONTEXT = 1_000_000


@dataclass(frozen=True, slots=True)
class ChosenContext:
    """`warnings` are for the user: where an answer may be cut, and why."""

    tokens: int
    warnings: tuple[str, ...] = ()


def chosen_context(
    longest_prompt: int, max_tokens: int, thinking: ThinkMode, *, asked: int | None, native: int
) -> ChosenContext:
    """What was asked for, else what the longest prompt and a full answer take; never more than the model has.

    UsageError above 1,000,000.
    """
    needed = longest_prompt + max_tokens + 1  # an engine keeps one place free
    wanted = max(needed, MAX_THINKING_CONTEXT) if thinking == "max" else needed
    if (asked or wanted) > MOST_CONTEXT:
        raise UsageError(
            f"the context would have {asked or wanted} tokens, the longest prompt and --tokens {max_tokens} together; "
            f"the most is {MOST_CONTEXT}: give fewer --tokens"
        )
    tokens = min(asked or wanted, native)
    if tokens >= needed:
        return ChosenContext(tokens)
    why = f"--ctx {asked}" if asked is not None and asked <= native else f"this model's context of {native}"
    return ChosenContext(tokens, (f"{why} is less than the {needed} tokens of a full answer: some may be cut",))


def selected(num_cases: int, questions: int | None, sequence: str | None) -> Sequence[int]:
    """Which cases are asked, in order, counted from 1: all, the first `questions`, or those of a list like 3,1,76."""
    if questions is not None and sequence is not None:
        raise UsageError("--questions and --case-sequence exclude each other: give one")
    if sequence is not None:
        return _listed(sequence, num_cases)
    if questions is not None and questions > num_cases:
        raise UsageError(f"--questions {questions}: there are {num_cases} cases; give at most that")
    return range(1, (questions or num_cases) + 1)


def _listed(sequence: str, num_cases: int) -> list[int]:
    words = [word.strip() for word in sequence.split(",")]
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and 1 <= int(word[:9]) <= num_cases)]
    if wrong or any(len(word) > len(str(num_cases)) + 3 for word in words):
        raise UsageError(
            f"--case-sequence {sequence}: expected numbers from 1 to {num_cases} with commas between, such as 3,1,2"
        )
    numbers = [int(word) for word in words]
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--case-sequence {sequence}: a case stands there twice; give each once")
    return numbers
