"""Stream events of the Responses API, numbered.

Promises: numbers from 0 without gaps; `type` comes first, the other members in alphabetical order, as officially.
"""

from typing import TypeAlias

from whitedwarf.conversation.json_value import Json

StreamEvent: TypeAlias = dict[str, Json]


class Numbering:
    """Makes the events of one answer."""

    def __init__(self) -> None:
        self._next = 0

    def event(self, kind: str, **members: Json) -> StreamEvent:
        """The next event."""
        members["sequence_number"] = self._next
        self._next += 1
        return {"type": kind, **dict(sorted(members.items()))}
