"""A conversation's turns in runs: how a turn begins depends on earlier turns of its own run only.

Each run begins with a control token, so it may be tokenised, and remembered, on its own.
"""

from collections.abc import Sequence
from typing import TypeAlias

from whitedwarf.conversation.message import LatestReminder, Message, ToolMessage, UserMessage

Run: TypeAlias = tuple[Message, ...]
_USER_SIDE = (UserMessage, ToolMessage)


def runs(turns: Sequence[Message]) -> list[Run]:
    """All turns in order; whatever the user and the tools say after one another is one run, and so are reminders."""
    found: list[Run] = []
    start = 0
    for index in range(1, len(turns) + 1):
        if index == len(turns) or not _goes_on(turns[index - 1], turns[index]):
            found.append(tuple(turns[start:index]))
            start = index
    return found if turns else []


def _goes_on(earlier: Message, later: Message) -> bool:
    if isinstance(earlier, _USER_SIDE):
        return isinstance(later, _USER_SIDE)
    return isinstance(earlier, LatestReminder) and isinstance(later, LatestReminder)
