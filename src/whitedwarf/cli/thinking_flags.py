"""Three flags, of which at most one, become a thinking mode."""

from typing import Protocol

from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError


class ThinkingFlags(Protocol):
    """Settings that have them."""

    @property
    def think(self) -> bool: ...

    @property
    def think_max(self) -> bool: ...

    @property
    def nothink(self) -> bool: ...


def asked_thinking(flags: ThinkingFlags) -> Thinking:
    """The mode asked for, high when none is; UsageError when several are."""
    modes = {
        "--think": (flags.think, Thinking.HIGH),
        "--think-max": (flags.think_max, Thinking.MAX),
        "--nothink": (flags.nothink, Thinking.NONE),
    }
    asked = {flag: mode for flag, (is_given, mode) in modes.items() if is_given}
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other: give one")
    return next(iter(asked.values()), Thinking.HIGH)
