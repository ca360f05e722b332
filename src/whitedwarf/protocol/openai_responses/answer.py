"""A stream of Responses events added up to the body that a client gets who did not ask for a stream.

Promises: after the terminal event, exactly the object that it carries.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from whitedwarf.conversation.json_value import Json


class ResponsesAnswer:
    """Feed it all events of one answer; those that only keep the connection alive may be among them."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """More events; a failure is left to whoever sends the status."""
        for event in events:
            self._response = event.get("response", self._response)

    def body(self, *, without_calls: Collection[int] = ()) -> dict[str, Json]:
        """The whole answer; `without_calls` are those that the model did not complete (demand.md P21)."""
        if not without_calls:
            return dict(self._response)
        output = self._response["output"]
        calls = [item for item in output if item["type"].endswith("_call")]
        unwanted = [item["id"] for index, item in enumerate(calls) if index in without_calls]
        return {**self._response, "output": [item for item in output if item["id"] not in unwanted]}
