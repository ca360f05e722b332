"""What a soak's requests look like in each dialect, and how an answer of each is checked."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Violation(Exception):  # noqa: N818
    """An answer that is not what the request was promised."""


@dataclass(frozen=True)
class Answer:
    """What a client got to read: the text, thinking included, and whether it ended by itself."""

    text: str
    is_whole: bool  # not cut by max_tokens
    prompt_tokens: int


@dataclass(frozen=True)
class Asked:
    """One request. `model` is a name that no other request has, which its answer must give back."""

    path: str
    model: str
    question: str
    max_tokens: int
    is_streamed: bool

    @property
    def body(self) -> bytes:
        common = {"model": self.model, "temperature": 0, "stream": self.is_streamed}
        return json.dumps(common | _BODIES[self.path](self)).encode()

    def read(self, body: bytes) -> Answer:
        """Check a complete answer; Violation where anything of it is not ours or is missing."""
        if self.is_streamed:
            return _STREAMS[self.path](self, _events(body))
        document = json.loads(body)
        self.check_model(document)
        return _DOCUMENTS[self.path](document)

    def check_model(self, document: dict[str, Any]) -> None:
        expect(document.get("model") == self.model, f"asked as {self.model}, answered {json.dumps(document)[:300]}")


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def _messages(asked: Asked) -> dict[str, Any]:
    said = [{"role": "user", "content": asked.question}]
    return {"messages": said, "max_tokens": asked.max_tokens, "thinking": {"type": "disabled"}}


def _chat(asked: Asked) -> dict[str, Any]:
    return _messages(asked) | {"stream_options": {"include_usage": True}}


def _responses(asked: Asked) -> dict[str, Any]:
    return {"input": asked.question, "max_output_tokens": asked.max_tokens, "reasoning": {"effort": "none"}}


def _completions(asked: Asked) -> dict[str, Any]:
    return {"prompt": asked.question, "max_tokens": asked.max_tokens, "think": False}


def _events(body: bytes) -> list[dict[str, Any] | str]:
    """The `data:` of each event, in order; whatever else a line may be is a Violation."""
    expect(body.endswith(b"\n\n"), f"a stream that breaks off: {body[-200:]!r}")
    events: list[dict[str, Any] | str] = []
    for line in body.decode().splitlines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            events.append(data if data == "[DONE]" else json.loads(data))
        else:
            expect(not line or line.startswith((":", "event: ")), f"a strange line {line[:200]!r}")
    return events


def _chat_stream(asked: Asked, events: list[Any]) -> Answer:
    *chunks, last = events
    expect(last == "[DONE]" and "[DONE]" not in chunks, f"expected one [DONE] at the end, got {events[-2:]}")
    expect(len({chunk["id"] for chunk in chunks}) == 1, "chunks of different answers")
    for chunk in chunks:
        asked.check_model(chunk)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    expect(len(ends) == 1, f"expected one finish_reason, got {ends}")
    usage = next(chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage"))
    text = "".join(_spoken(choice.get("delta") or choice) for choice in choices)
    return Answer(text, ends[0] == "stop", usage["prompt_tokens"])


def _spoken(part: dict[str, Any]) -> str:
    return (part.get("reasoning_content") or "") + (part.get("content") or "") + (part.get("text") or "")


def _chat_document(document: dict[str, Any]) -> Answer:
    (choice,) = document["choices"]
    text = _spoken(choice.get("message") or choice)
    return Answer(text, choice["finish_reason"] == "stop", document["usage"]["prompt_tokens"])


def _messages_stream(asked: Asked, events: list[Any]) -> Answer:
    kinds = [event["type"] for event in events]
    expect(kinds.count("message_stop") == 1 == kinds.count("message_start"), f"starts and stops: {kinds}")
    expect(kinds[-1] == "message_stop", f"expected message_stop at the end, got {kinds[-3:]}")
    asked.check_model(events[kinds.index("message_start")]["message"])
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    text = "".join(delta.get("thinking", "") + delta.get("text", "") for delta in deltas)
    end = events[kinds.index("message_delta")]
    return Answer(text, end["delta"]["stop_reason"] == "end_turn", _all_input(end["usage"]))


def _messages_document(document: dict[str, Any]) -> Answer:
    text = "".join(block.get("thinking", "") + block.get("text", "") for block in document["content"])
    return Answer(text, document["stop_reason"] == "end_turn", _all_input(document["usage"]))


def _all_input(usage: dict[str, int]) -> int:
    return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]


def _responses_stream(asked: Asked, events: list[Any]) -> Answer:
    numbers = [event["sequence_number"] for event in events]
    expect(numbers == list(range(len(numbers))), f"sequence numbers {numbers}")
    ends = [event for event in events if event["type"] in ("response.completed", "response.incomplete")]
    expect(len(ends) == 1 and ends[0] is events[-1], f"expected one end, at the end; got {events[-1]}")
    for event in events:
        if "response" in event:
            asked.check_model(event["response"])
    deltas = [
        e["delta"] for e in events if e["type"] in ("response.reasoning_text.delta", "response.output_text.delta")
    ]
    answer = _responses_document(ends[0]["response"])
    expect("".join(deltas) == answer.text, f"deltas {''.join(deltas)!r}, at the end {answer.text!r}")
    return answer


def _responses_document(document: dict[str, Any]) -> Answer:
    parts = [part for item in document["output"] for part in item["content"]]
    text = "".join(part["text"] for part in parts)
    return Answer(text, document["status"] == "completed", document["usage"]["input_tokens"])


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
PATHS = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)
_BODIES: dict[str, Callable[[Asked], dict[str, Any]]] = {
    CHAT: _chat,
    COMPLETIONS: _completions,
    MESSAGES: _messages,
    RESPONSES: _responses,
}
_STREAMS: dict[str, Callable[[Asked, list[Any]], Answer]] = {
    CHAT: _chat_stream,
    COMPLETIONS: _chat_stream,
    MESSAGES: _messages_stream,
    RESPONSES: _responses_stream,
}
_DOCUMENTS: dict[str, Callable[[dict[str, Any]], Answer]] = {
    CHAT: _chat_document,
    COMPLETIONS: _chat_document,
    MESSAGES: _messages_document,
    RESPONSES: _responses_document,
}
