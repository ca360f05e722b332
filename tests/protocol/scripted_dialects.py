"""One scripted model output, told in each of the three dialects: request, parser, stream and body (demand.md 1.1 "SE").

`Script.answer` checks E0 on its way: no markup that the user did not write, one end, finished arguments are JSON
objects, unfinished ones are none, and the stream adds up to the body.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whitedwarf.conversation.events import BackendReason
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.anthropic import convert as messages
from whitedwarf.protocol.anthropic.answer import MessagesAnswer
from whitedwarf.protocol.anthropic.stream import MessagesStream
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import Converted, ReplyIdentity
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.openai_chat.answer import ChatAnswer
from whitedwarf.protocol.openai_chat.stream import ChatStream
from whitedwarf.protocol.openai_responses import convert as responses
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.stream import ResponsesStream
from whitedwarf.protocol.policy import local

Object = dict[str, Any]
DIALECTS = ("chat", "messages", "responses")
MARKUP = ("｜DSML｜", "<think>", "</think>", "<｜", "｜>")
IDENTITY = ReplyIdentity("answer-1", "model-x", 0)
_SCHEMAS: dict[str, Object] = {
    "note_add": {"text": {"type": "string"}, "pinned": {"type": "boolean"}},
    "run": {"cmd": {"type": "string"}},
    "pick": {"ids": {"type": "array", "items": {"type": "integer"}}, "opts": {"type": "object"}},
}


@dataclass(frozen=True)
class Shown:
    """What a client has in the end; `calls` are names with all their argument text, whole or not."""

    reasoning: str = ""
    content: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = "stop"
    stop_string: str | None = None


@dataclass(frozen=True)
class Script:
    """A request in one dialect; `members` go into its body as they are, `parsing` is what a server sets besides."""

    dialect: str
    thinks: bool = False
    tools: Sequence[str] = ("note_add", "run", "pick")
    members: Object = field(default_factory=dict)
    parsing: Object = field(default_factory=dict)

    def body(self) -> Object:
        """The request."""
        tools = [_TOOL[self.dialect](name, {"type": "object", "properties": _SCHEMAS[name]}) for name in self.tools]
        asked = {"tools": tools} if tools else {}
        return {**_ASK[self.dialect], **asked, **_thinking(self.dialect, self.thinks), **self.members}

    def converted(self, version: ModelVersion = ModelVersion.V4) -> Converted[Any]:
        """The request as our own server reads it."""
        return _CONVERT[self.dialect](self.body(), local(version))

    def prompt(self, version: ModelVersion = ModelVersion.V4) -> str:
        """All of the prompt, rendered."""
        return encode(self.converted(version).conversation, version).rendered().text

    def answer(self, pieces: Iterable[str], reason: str = "stop") -> Shown:
        """The answer that these pieces of output make."""
        parser, told = self._begun()
        for piece in pieces:
            if not parser.is_finished:
                told.take(parser.feed_text(piece))
        return told.shown(parser.finish(BackendReason(reason)))

    def answer_of_ids(self, groups: Iterable[Sequence[int]], tokenizer: Tokenizer, reason: str = "stop") -> Shown:
        """The answer that these groups of ids make."""
        parser, told = self._begun(tokenizer)
        for group in groups:
            if not parser.is_finished:
                told.take(parser.feed_ids(group))
        return told.shown(parser.finish(BackendReason(reason)))

    def answer_in_every_cut(self, text: str, reason: str = "stop") -> Shown:
        """The answer, which must be the same whole, cut in two anywhere, and one character at a time."""
        whole = self.answer([text], reason)
        for at in range(1, len(text)):
            assert self.answer([text[:at], text[at:]], reason) == whole, (text[:at], text[at:])
        assert self.answer(text, reason) == whole
        return whole

    def events(self, pieces: Iterable[str], reason: str = "stop") -> list[Object]:
        """Everything that goes over the wire."""
        parser, told = self._begun()
        for piece in pieces:
            told.take(parser.feed_text(piece))
        told.take(parser.finish(BackendReason(reason)))
        return told.events

    def _begun(self, tokenizer: Tokenizer | None = None) -> tuple[OutputParser, "_Told"]:
        made = self.converted()
        return OutputParser(replace(made.parsing, **self.parsing), tokenizer), _Told(self.dialect, made.reply)


class _Told:
    """The events of one answer, and what they add up to."""

    def __init__(self, dialect: str, reply: Any) -> None:
        call_ids = CallIds(is_thinking=reply.is_thinking, suffix=lambda: "*")
        self._dialect = dialect
        self._stream: Any = _STREAM[dialect](IDENTITY, reply, call_ids=call_ids)
        self.events: list[Object] = self._stream.begin()

    def take(self, events: Any) -> None:
        self.events += self._stream.take(events)

    def shown(self, last: Any) -> Shown:
        """The answer, after all that E0 demands was found true of it."""
        self.take(last)
        unfinished = self._stream.unfinished_calls
        answer: Any = ChatAnswer(IDENTITY) if self._dialect == "chat" else _ANSWER[self._dialect]()
        answer.take(self.events)
        shown = add_up(self._dialect, self.events, answer.body(without_calls=unfinished))
        for index, (_, arguments) in enumerate(shown.calls):
            assert _is_object(arguments) is (index not in unfinished), arguments
        return shown


def add_up(dialect: str, events: list[Object], body: Object) -> Shown:
    """What a stream's events show, after all that E0 demands was found true of them and of the same answer's body.

    Arguments that are no whole object are allowed only to the last call of an answer that was cut.
    """
    streamed = _OF_STREAM[dialect](events)
    told = json.dumps([events, body], ensure_ascii=False)
    assert not any(markup in told for markup in MARKUP), told
    whole = tuple(call for call in streamed.calls if _is_object(call[1]))
    assert whole == streamed.calls or (streamed.calls[:-1] == whole and streamed.finish != "tool_calls"), streamed
    buffered = _OF_BODY[dialect](body)
    assert buffered == replace(streamed, calls=whole)
    return streamed


def shown_by_body(dialect: str, body: Object) -> Shown:
    """What a body alone shows, unchecked."""
    return _OF_BODY[dialect](body)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except json.JSONDecodeError:
        return False


# Requests


def _thinking(dialect: str, thinks: bool) -> Object:
    if dialect == "responses":
        return {"reasoning": {"effort": "high" if thinks else "none"}}
    return {"thinking": {"type": "enabled" if thinks else "disabled"}}


_ASK: dict[str, Object] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Go on."}]},
    "messages": {"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "Go on."}]},
    "responses": {"model": "m", "input": "Go on."},
}
_TOOL: dict[str, Callable[[str, Object], Object]] = {
    "chat": lambda name, schema: {"type": "function", "function": {"name": name, "parameters": schema}},
    "messages": lambda name, schema: {"name": name, "input_schema": schema},
    "responses": lambda name, schema: {"type": "function", "name": name, "parameters": schema},
}
_CONVERT: dict[str, Callable[[Any, Any], Converted[Any]]] = {
    "chat": chat.convert,
    "messages": messages.convert,
    "responses": responses.convert,
}
_STREAM: dict[str, Any] = {"chat": ChatStream, "messages": MessagesStream, "responses": ResponsesStream}
_ANSWER: dict[str, Any] = {"messages": MessagesAnswer, "responses": ResponsesAnswer}


# Chat


def _chat_stream(chunks: list[Object]) -> Shown:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    calls: list[list[str]] = []
    for call in (call for choice in choices for call in choice["delta"].get("tool_calls", ())):
        if "id" in call:
            calls.append([call["function"]["name"], ""])
        calls[call["index"]][1] += call["function"].get("arguments", "")
    (end,) = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    assert choices[-1]["finish_reason"] == end
    told = {key: "".join(c["delta"].get(key) or "" for c in choices) for key in ("reasoning_content", "content")}
    return Shown(told["reasoning_content"], told["content"], tuple((name, text) for name, text in calls), end)


def _chat_body(body: Object) -> Shown:
    (choice,) = body["choices"]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    reasoning, content = message.get("reasoning_content") or "", message["content"] or ""
    return Shown(reasoning, content, tuple(calls), choice["finish_reason"])


# Messages

_STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
_TEXT_OF = {"thinking": "thinking", "text": "text", "tool_use": "partial_json"}


def _messages_stream(events: list[Object]) -> Shown:
    blocks: list[tuple[str, str, list[str]]] = []
    for event in events:
        if event["type"] == "content_block_start":
            started = event["content_block"]
            blocks.append((started["type"], started.get("name", ""), []))
        elif event["type"] == "content_block_delta":
            kind, _, texts = blocks[event["index"]]
            texts += [event["delta"][key] for key in (_TEXT_OF[kind],) if key in event["delta"]]
    (end,) = [event["delta"] for event in events if event["type"] == "message_delta"]
    assert [event["type"] for event in events].count("message_stop") == 1
    assert events[-1]["type"] == "message_stop"
    return _of_blocks([(kind, name, "".join(texts)) for kind, name, texts in blocks], end)


def _messages_body(body: Object) -> Shown:
    shown = []
    for block in body["content"]:
        text = json.dumps(block["input"]) if block["type"] == "tool_use" else block[block["type"]]
        shown.append((block["type"], block.get("name", ""), text))
    return _of_blocks(shown, body)


def _of_blocks(blocks: list[tuple[str, str, str]], end: Object) -> Shown:
    return Shown(
        "".join(text for kind, _, text in blocks if kind == "thinking"),
        "".join(text for kind, _, text in blocks if kind == "text"),
        tuple((name, _plain(text)) for kind, name, text in blocks if kind == "tool_use"),
        _STOP_REASONS[end["stop_reason"]],
        end["stop_sequence"],
    )


def _plain(arguments: str) -> str:
    """Whole arguments as Python writes them: a body has them read."""
    return json.dumps(json.loads(arguments)) if _is_object(arguments) else arguments


# Responses


def _responses_stream(events: list[Object]) -> Shown:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    (end,) = [event for event in events if event["type"] in _TERMINAL]
    assert events[-1] is end
    items: dict[str, tuple[str, str, list[str]]] = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            item = event["item"]
            items[item["id"]] = (item["type"], item.get("name", ""), [])
        elif event["type"].endswith(".delta"):
            items[event["item_id"]][2].append(event["delta"])
    return _of_items([(kind, name, "".join(texts)) for kind, name, texts in items.values()], end["response"])


_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def _responses_body(body: Object) -> Shown:
    shown = []
    for item in body["output"]:
        parts = item.get("content") or [{}]
        shown.append((item["type"], item.get("name", ""), item.get("arguments", parts[0].get("text", ""))))
    return _of_items(shown, body)


def _of_items(items: list[tuple[str, str, str]], response: Object) -> Shown:
    calls = tuple((name, text) for kind, name, text in items if kind == "function_call")
    is_whole = response["status"] == "completed"
    return Shown(
        "".join(text for kind, _, text in items if kind == "reasoning"),
        "".join(text for kind, _, text in items if kind == "message"),
        calls,
        ("tool_calls" if calls else "stop") if is_whole else "length",
    )


_OF_STREAM = {"chat": _chat_stream, "messages": _messages_stream, "responses": _responses_stream}
_OF_BODY = {"chat": _chat_body, "messages": _messages_body, "responses": _responses_body}
