"""Whole answers through the parser and an answer builder, push by push, in the form that the parse vectors have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from prompt.parse_facts import Vector
from whitedwarf.conversation.events import BackendReason, Event
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.anthropic.answer import MessagesAnswer
from whitedwarf.protocol.anthropic.convert import convert as convert_messages
from whitedwarf.protocol.anthropic.stream import MessagesStream
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import NOT_MEASURED, ChatReply, MessagesReply, PromptUsage, ReplyIdentity
from whitedwarf.protocol.openai_chat.answer import ChatAnswer
from whitedwarf.protocol.openai_chat.convert import convert as convert_chat
from whitedwarf.protocol.openai_chat.stream import ChatStream
from whitedwarf.protocol.policy import OFFICIAL
from whitedwarf.protocol.token_log import TokenLog

IDENTITY = ReplyIdentity(id="resp-1", model="model-x", created=0)
Told = dict[str, Any]


class Stream(Protocol):
    def begin(self, usage: PromptUsage = ..., fingerprint: str | None = None) -> list[Told]: ...

    def take(self, events: Iterable[Event]) -> list[Told]: ...


@dataclass(frozen=True)
class Run:
    """What was told at every push; the last entry is the final `finish()`."""

    pushes: list[list[Told]]
    stopped_early: bool

    @property
    def told(self) -> list[Told]:
        return [one for push in self.pushes for one in push]


def call_ids(*, is_thinking: bool) -> CallIds:
    """Ids as the vectors' normalisation leaves them."""
    return CallIds(is_thinking=is_thinking, suffix=lambda: "*")


def chat_reply(options: ParseOptions) -> ChatReply:
    return ChatReply(
        is_thinking=options.start is not ParseStart.CONTENT,
        continues_answer=options.start is ParseStart.CONTENT_CONTINUED,
    )


def chat_stream(reply: ChatReply, tokens: TokenLog | None = None) -> ChatStream:
    return ChatStream(IDENTITY, reply, tokens, call_ids=call_ids(is_thinking=reply.is_thinking))


def messages_stream(reply: MessagesReply, tokens: TokenLog | None = None) -> MessagesStream:
    return MessagesStream(IDENTITY, reply, tokens, call_ids=call_ids(is_thinking=reply.is_thinking))


def chat_body(told: Iterable[Told], without_calls: Sequence[int] = ()) -> Told:
    answer = ChatAnswer(IDENTITY)
    answer.take(told)
    return answer.body(without_calls=without_calls)


def messages_body(told: Iterable[Told], without_calls: Sequence[int] = ()) -> Told:
    answer = MessagesAnswer()
    answer.take(told)
    return answer.body(without_calls=without_calls)


def vector_run(vector: Vector, tokenizer: Tokenizer) -> Run:
    """The events of a parse vector in its own dialect."""
    tokens = TokenLog(tokenizer) if any(len(chunk) > 2 for chunk in vector["chunks"] if chunk[0] == "tokens") else None
    if vector["protocol"] == "chat":
        asked = convert_chat(vector["request"], OFFICIAL)
        return run(vector["chunks"], asked.parsing, tokenizer, chat_stream(asked.reply, tokens), tokens)
    wanted = convert_messages(vector["request"], OFFICIAL)
    stream = messages_stream(replace(wanted.reply, signature=vector.get("signature")))
    return run(vector["chunks"], wanted.parsing, tokenizer, stream, tokens)


def run(
    chunks: Iterable[Sequence[Any]],
    options: ParseOptions,
    tokenizer: Tokenizer | None,
    stream: Stream,
    tokens: TokenLog | None = None,
) -> Run:
    """Chunks in the form of the vectors; without a first "ready" the answer begins with what comes first."""
    parser = OutputParser(options, tokenizer)
    pushes: list[list[Told]] = []
    is_begun = False
    for chunk in chunks:
        if parser.is_finished:
            return Run([*pushes, stream.take(parser.finish())], stopped_early=True)
        begun = [] if is_begun else _begun(stream, chunk)
        is_begun = True
        pushes.append(begun + stream.take(_events(parser, tokens, chunk)))
    begun = [] if is_begun else stream.begin()
    return Run([*pushes, begun + stream.take(parser.finish())], stopped_early=False)


def _begun(stream: Stream, chunk: Sequence[Any]) -> list[Told]:
    if chunk[0] != "ready":
        return stream.begin()
    usage = PromptUsage(chunk[1].get("prompt_tokens", 0), chunk[1].get("cache", 0)) if chunk[1] else NOT_MEASURED
    return stream.begin(usage, chunk[1].get("fp"))


def _events(parser: OutputParser, tokens: TokenLog | None, chunk: Sequence[Any]) -> list[Event]:
    match chunk:
        case ["text", text, count]:
            return parser.feed_text(text, count)
        case ["tokens", ids, *scores]:
            _log(tokens, ids, scores)
            return parser.feed_ids(ids)
        case ["finish", reason]:
            return parser.finish(BackendReason(reason))
    return []


def _log(tokens: TokenLog | None, ids: Sequence[int], scores: Sequence[Any]) -> None:
    if tokens is None:
        return
    if not scores:
        tokens.skip(len(ids))
        return
    for token_id, (logprob, top) in zip(ids, scores[0], strict=True):
        tokens.add(token_id, logprob, [(other, value) for other, value in top])
