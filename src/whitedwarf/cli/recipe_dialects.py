"""The three dialects of vectors files, each as what it takes to read a request and to tell an answer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whitedwarf.cli.recipe_lines import Line, LineError, member
from whitedwarf.conversation.events import Event
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.anthropic.answer import MessagesAnswer
from whitedwarf.protocol.anthropic.convert import convert as convert_messages
from whitedwarf.protocol.anthropic.stream import MessagesStream
from whitedwarf.protocol.anthropic.stream import sse_name as messages_sse_name
from whitedwarf.protocol.converted import Converted, PromptUsage, ReplyIdentity
from whitedwarf.protocol.openai_chat.answer import ChatAnswer
from whitedwarf.protocol.openai_chat.convert import convert as convert_chat
from whitedwarf.protocol.openai_chat.stream import ChatStream
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.convert import convert as convert_responses
from whitedwarf.protocol.openai_responses.stream import ResponsesStream
from whitedwarf.protocol.openai_responses.stream import sse_name as responses_sse_name
from whitedwarf.protocol.policy import Policy

Told = dict[str, Any]


class Stream(Protocol):
    """An answer while it is told."""

    def begin(self, usage: PromptUsage = ..., fingerprint: str | None = None) -> list[Told]: ...

    def take(self, events: Iterable[Event]) -> list[Told]: ...


class Answer(Protocol):
    """What is told, added up."""

    def take(self, told: Iterable[Mapping[str, Any]], /) -> None: ...

    def body(self) -> dict[str, Json]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect. `stream` is made of identity, reply, token log and `call_ids`; some have no names for events."""

    convert: Callable[[Json, Policy], Converted[Any]]
    stream: Callable[..., Stream]
    answer: Callable[[ReplyIdentity], Answer]
    sse_name: Callable[[Told], str] | None


DIALECTS: Mapping[str, Dialect] = {
    "chat": Dialect(convert_chat, ChatStream, ChatAnswer, None),
    "responses": Dialect(convert_responses, ResponsesStream, lambda _: ResponsesAnswer(), responses_sse_name),
    "messages": Dialect(convert_messages, MessagesStream, lambda _: MessagesAnswer(), messages_sse_name),
}


def dialect_of(line: Line) -> Dialect:
    """The dialect that a line names; LineError for any other."""
    dialect = DIALECTS.get(member(line, "protocol", str))
    if dialect is None:
        raise LineError(f"the protocol is {line['protocol']!r:.80}; expected one of {', '.join(DIALECTS)}")
    return dialect
