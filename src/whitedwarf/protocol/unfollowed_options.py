"""What is said of sampling options that are not followed as they were asked for."""

from collections.abc import Mapping


def lowered_limit(name: str, requested: int | None, bound: int) -> tuple[str, ...]:
    """A sentence where an answer may not be as long as was asked for."""
    if requested is None or requested <= bound:
        return ()
    return (f"{name} was lowered to {bound}, the most that is possible.",)


def ignored_while_thinking(asked: Mapping[str, float | None], *, is_thinking: bool) -> tuple[str, ...]:
    """A sentence where options differ from those that thinking always has: 1 is what both of them mean by default."""
    names = [name for name, value in asked.items() if value is not None and not (name in _DEFAULT_ONE and value == 1)]
    if not is_thinking or not names:
        return ()
    return (f"Ignored while thinking, which has settings of its own: {', '.join(names)}.",)


_DEFAULT_ONE = ("temperature", "top_p")
