"""The four dialects a server speaks, each as the pieces that read its requests and tell its answers.

A table and no logic: what differs between dialects is named here once, so that the road and the server need not know
which one they are serving.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from whitedwarf.conversation.events import BackendReason, Event
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.plain_output import PlainOutput
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol import completions
from whitedwarf.protocol.anthropic import convert as messages
from whitedwarf.protocol.anthropic.answer import MessagesAnswer
from whitedwarf.protocol.anthropic.stream import MessagesStream
from whitedwarf.protocol.completion_chunks import CompletionAnswer, CompletionStream
from whitedwarf.protocol.converted import CompletionReply, Converted, PromptUsage, ReplyIdentity
from whitedwarf.protocol.failures import Failure, anthropic_body, openai_body
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.openai_chat.answer import ChatAnswer
from whitedwarf.protocol.openai_chat.stream import SSE_DONE, ChatStream
from whitedwarf.protocol.openai_responses import convert as responses
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.stream import ResponsesStream
from whitedwarf.protocol.policy import Policy

Told = dict[str, Any]


class Parser(Protocol):
    """Reads the ids of one answer."""

    is_finished: bool

    def feed_ids(self, ids: Iterable[int]) -> list[Event]: ...

    def finish(self, reason: BackendReason | None = None) -> list[Event]: ...


class Stream(Protocol):
    """Tells one answer while it comes."""

    is_over: bool

    @property
    def call_ids(self) -> Mapping[int, str]: ...

    def begin(self, usage: PromptUsage = ..., fingerprint: str | None = None) -> list[Told]: ...

    def measure(self, usage: PromptUsage) -> None: ...

    def take(self, events: Iterable[Event]) -> list[Told]: ...

    def fail(self, message: str) -> list[Told]: ...

    def keepalive(self) -> list[Told]: ...


class Answer(Protocol):
    """Adds up what a stream told."""

    def take(self, told: Iterable[Mapping[str, Any]], /) -> None: ...

    def body(self, *, without_calls: Collection[int] = ()) -> Told: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect. `names_events`: each event on the wire carries its type; `last_line` follows a stream that ended."""

    name: str
    id_prefix: str
    convert: Callable[[Json, Policy, RecipeMemory], Converted[Any]]
    parser: Callable[[ParseOptions, Tokenizer], Parser]
    stream: Callable[..., Stream]
    answer: Callable[[ReplyIdentity], Answer]
    failure_body: Callable[[Failure], dict[str, Json]]
    names_events: bool
    last_line: str | None = None


class _WholeCompletion(CompletionAnswer):
    """Legacy Completions have no calls to leave out."""

    def body(self, *, without_calls: Collection[int] = ()) -> Told:
        return super().body()


def _completions(body: Json, policy: Policy, memory: RecipeMemory) -> Converted[CompletionReply]:
    return completions.convert(body, policy)


def _plain(options: ParseOptions, tokenizer: Tokenizer) -> Parser:
    return PlainOutput(options.stop_strings, tokenizer)


CHAT = Dialect(
    name="chat",
    id_prefix="chatcmpl-",
    convert=chat.convert,
    parser=OutputParser,
    stream=ChatStream,
    answer=ChatAnswer,
    failure_body=openai_body,
    names_events=False,
    last_line=SSE_DONE,
)
RESPONSES = Dialect(
    name="responses",
    id_prefix="resp_",
    convert=responses.convert,
    parser=OutputParser,
    stream=ResponsesStream,
    answer=lambda _: ResponsesAnswer(),
    failure_body=partial(openai_body, param="input"),
    names_events=True,
)
MESSAGES = Dialect(
    name="messages",
    id_prefix="msg_",
    convert=messages.convert,
    parser=OutputParser,
    stream=MessagesStream,
    answer=lambda _: MessagesAnswer(),
    failure_body=anthropic_body,
    names_events=True,
)
COMPLETIONS = Dialect(
    name="completions",
    id_prefix="cmpl-",
    convert=_completions,
    parser=_plain,
    stream=CompletionStream,
    answer=_WholeCompletion,
    failure_body=partial(openai_body, param="prompt"),
    names_events=False,
    last_line=SSE_DONE,
)
DIALECTS: Sequence[Dialect] = (CHAT, RESPONSES, MESSAGES, COMPLETIONS)
