"""Three flags, of which at most one, become a thinking mode."""

from whitedwarf.config import ChatSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError


def asked_thinking(chat: ChatSettings) -> Thinking:
    """The mode asked for, high when none is; UsageError when several are."""
    flags = {
        "--think": (chat.think, Thinking.HIGH),
        "--think-max": (chat.think_max, Thinking.MAX),
        "--nothink": (chat.nothink, Thinking.NONE),
    }
    asked = {flag: mode for flag, (is_given, mode) in flags.items() if is_given}
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other: give one")
    return next(iter(asked.values()), Thinking.HIGH)
