"""Chat Completions chunks, added up to the body that a client gets who did not ask for a stream.

Promises: the official accumulated form (spec/recipe.md 13); whatever pieces the text came in, the same body.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.converted import ReplyIdentity


@dataclass(slots=True)
class _Call:
    """One call: `kind` is "function" or "custom", `pieces` are of its arguments or its plain input."""

    call_id: str
    kind: str
    name: str
    pieces: list[str] = field(default_factory=list)

    def body(self, index: int) -> dict[str, Json]:
        shown = {"name": self.name, "input" if self.kind == "custom" else "arguments": "".join(self.pieces)}
        return {"index": index, "id": self.call_id, "type": self.kind, self.kind: shown}


class ChatAnswer:
    """Feed it all chunks of one answer; chunks that only keep the connection alive may be among them."""

    def __init__(self, identity: ReplyIdentity) -> None:
        self._identity = identity
        self._content: list[str] | None = None
        self._reasoning: list[str] | None = None
        self._calls: list[_Call] = []
        self._logprobs: dict[str, list[Json]] = {}
        self._finish_reason: str | None = None
        self._usage: Json = None
        self._fingerprint: Json = None

    def take(self, chunks: Iterable[Mapping[str, Any]]) -> None:
        """More chunks; an error is left to whoever sends the status."""
        for chunk in chunks:
            if "error" in chunk:
                continue
            self._fingerprint = chunk["system_fingerprint"]
            self._usage = chunk.get("usage") or self._usage
            for choice in chunk["choices"]:
                self._take_choice(choice)

    def body(self, *, without_calls: Collection[int] = ()) -> dict[str, Json]:
        """The whole answer; `without_calls` are those that the model did not complete (demand.md P21)."""
        choice: dict[str, Json] = {
            "index": 0,
            "message": self._message(without_calls),
            "logprobs": self._all_logprobs(),
            "finish_reason": self._finish_reason,
        }
        return {
            "id": self._identity.id,
            "object": "chat.completion",
            "created": self._identity.created,
            "model": self._identity.model,
            "choices": [choice],
            "usage": self._usage,
            "system_fingerprint": self._fingerprint,
        }

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice["delta"]
        self._content = _with(self._content, delta.get("content"))
        self._reasoning = _with(self._reasoning, delta.get("reasoning_content"))
        for call in delta.get("tool_calls", ()):
            self._take_call(call)
        for key, entries in (choice["logprobs"] or {}).items():
            self._logprobs.setdefault(key, []).extend(entries)
        self._finish_reason = choice["finish_reason"] or self._finish_reason

    def _take_call(self, call: Mapping[str, Any]) -> None:
        if "id" in call:
            self._calls.append(_Call(call["id"], call["type"], call[call["type"]]["name"]))
        else:
            taken = self._calls[call["index"]]
            taken.pieces += call[taken.kind].values()

    def _message(self, without_calls: Collection[int]) -> dict[str, Json]:
        message: dict[str, Json] = {"role": "assistant", "content": _joined(self._content)}
        if self._reasoning is not None:
            message["reasoning_content"] = _joined(self._reasoning)
        calls = [call.body(index) for index, call in enumerate(self._calls) if index not in without_calls]
        return {**message, "tool_calls": calls} if calls else message

    def _all_logprobs(self) -> Json:
        return {key: self._logprobs[key] for key in sorted(self._logprobs)} or None  # content before reasoning_content


def _with(pieces: list[str] | None, piece: str | None) -> list[str] | None:
    """Null is another thing than empty text: a field that was always null is left out."""
    if piece is None:
        return pieces
    if pieces is None:
        return [piece]
    pieces.append(piece)
    return pieces


def _joined(pieces: list[str] | None) -> str | None:
    return None if pieces is None else "".join(pieces)
