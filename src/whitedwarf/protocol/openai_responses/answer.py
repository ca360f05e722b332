"""A stream of Responses events added up to the body that a client gets who did not ask for a stream.

Promises: after the terminal event, exactly the object that it carries.
"""

from collections.abc import Iterable
from typing import cast

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.openai_responses.numbering import StreamEvent


class ResponsesAnswer:
    """Add the events as they come."""

    def __init__(self) -> None:
        self._response: dict[str, Json] = {}

    def add(self, events: Iterable[StreamEvent]) -> None:
        """More of the stream."""
        for event in events:
            if "response" in event:
                self._response = cast(dict[str, Json], event["response"])

    @property
    def body(self) -> dict[str, Json]:
        """The object as of the last event that carried one."""
        return dict(self._response)
