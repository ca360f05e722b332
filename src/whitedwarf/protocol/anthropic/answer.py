"""Messages stream events, added up to the body that a client gets who did not ask for a stream.

Promises: the official accumulated form (spec/recipe.md 13); whatever pieces the text came in, the same body. The input
of a call whose JSON nobody can read is an empty object.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.json_body import read_json

_TEXT_KEYS = ("text", "thinking", "partial_json")


@dataclass(slots=True)
class _Block:
    """One content block: `content` as it began, `pieces` of its text or JSON."""

    content: dict[str, Json]
    pieces: list[str] = field(default_factory=list)

    @property
    def is_call(self) -> bool:
        return self.content["type"] == "tool_use"

    def take(self, delta: Mapping[str, str]) -> None:
        if "signature" in delta:
            self.content["signature"] = delta["signature"]
        self.pieces += [delta[key] for key in _TEXT_KEYS if key in delta]

    def body(self) -> dict[str, Json]:
        text = "".join(self.pieces)
        if self.is_call:
            return {**self.content, "input": _object(text)}
        return {**self.content, str(self.content["type"]): text}


class MessagesAnswer:
    """Feed it all events of one answer; pings may be among them."""

    def __init__(self) -> None:
        self._message: dict[str, Json] = {}
        self._blocks: list[_Block] = []

    def take(self, events: Iterable[Mapping[str, Any]]) -> None:
        """More events; an error is left to whoever sends the status."""
        for event in events:
            match event["type"]:
                case "message_start":
                    self._message = dict(event["message"])
                case "content_block_start":
                    self._blocks.append(_Block(dict(event["content_block"])))
                case "content_block_delta":
                    self._blocks[event["index"]].take(event["delta"])
                case "message_delta":
                    self._message |= event["delta"]
                    self._message["usage"] = event["usage"]

    def body(self, *, without_calls: Collection[int] = ()) -> dict[str, Json]:
        """The whole answer; `without_calls` are those that the model did not complete (demand.md P21)."""
        calls = [block for block in self._blocks if block.is_call]
        left_out = [calls[index] for index in without_calls]
        content = [block.body() for block in self._blocks if not any(block is one for one in left_out)]
        return {**self._message, "content": content}


def _object(text: str) -> Json:
    try:
        value = read_json(text)
    except MalformedRequest:
        return {}
    return value if isinstance(value, dict) else {}
