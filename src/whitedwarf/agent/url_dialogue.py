"""A conversation with a model behind any server that speaks OpenAI's Chat Completions: a `Dialogue` in messages.

Promises: the key goes to that server and into no message; a call that a check refuses ends the request at once; after
any error the conversation is whole. Counts are the server's where it tells them, and estimates between.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whitedwarf.agent.dialogue import Answer, Checks, Result
from whitedwarf.agent.events import AnswerEnd, Compacting, Event, Listener, Notice, Reading
from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.url_answer import UrlAnswer
from whitedwarf.agent.url_client import FIRST_PAUSE_S, ChatClient
from whitedwarf.agent.url_messages import ChatMessages, Message
from whitedwarf.conversation.events import ReasoningDelta, TextDelta
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.request import SamplingOptions
from whitedwarf.errors import Cancelled
from whitedwarf.web.endpoint.server_options import ServerOptions

TOKENS_PER_BYTE = 0.28  # of JSON, until the server has counted
_LEAST_RATIO, _MOST_RATIO = 0.05, 1.0


class UrlDialogue:
    """One conversation. `options.model` is named; `context_length` in tokens."""

    def __init__(
        self,
        options: ServerOptions,
        context_length: int,
        thinking: Thinking = Thinking.HIGH,
        sampling: SamplingOptions | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._options = options
        self._context_length = context_length
        self._effort = Thinking.HIGH
        self._is_thinking = False
        self.thinking = thinking
        self._sampling = sampling or SamplingOptions()
        self._listen: Listener = _nobody
        self._client = ChatClient(options, lambda text: self._listen(Notice(text)), first_pause_s)
        self._messages = ChatMessages()
        self._is_begun = False
        self._ratio = TOKENS_PER_BYTE
        self._counted = (0, 0)  # tokens that the server counted, when so many bytes had been said
        self._call_numbers = itertools.count(1)

    @property
    def context_length(self) -> int:
        """Tokens at most."""
        return self._context_length

    @property
    def used_tokens(self) -> int:
        """What the server counted last, and an estimate of what was said since; 0 before `begin`."""
        if not self._is_begun:
            return 0
        tokens, size = self._counted
        return tokens + round((self._messages.size() - size) * self._ratio)

    @property
    def is_thinking(self) -> bool:
        """Whether the server is asked to have the model think."""
        return self._is_thinking

    @is_thinking.setter
    def is_thinking(self, value: bool) -> None:
        self._is_thinking = value

    @property
    def thinking(self) -> Thinking:
        """How thoroughly, as far as the server can."""
        return self._effort if self._is_thinking else Thinking.NONE

    @thinking.setter
    def thinking(self, value: Thinking) -> None:
        self._is_thinking = value.is_on
        self._effort = value if value.is_on else self._effort

    def begin(self, system: str, tools: Sequence[ToolDefinition], extra: str) -> None:
        """As Dialogue."""
        self._messages.begin(system, tools, extra)
        self._is_begun = True
        self._counted = (0, 0)

    def count(self, text: str) -> int:
        """An estimate."""
        return round(len(text.encode("utf-8", "replace")) * self._ratio)

    def say(self, text: str) -> None:
        """As Dialogue."""
        self._messages.say(text)

    def instruct(self, text: str) -> None:
        """As Dialogue."""
        self._messages.instruct(text)

    def remind(self, text: str) -> None:
        """Nothing: every request has the system's part and the tools."""

    def report(self, results: Sequence[Result], note: str = "") -> None:
        """As Dialogue; a note stands where the result of the call that was at fault would stand."""
        self._messages.report(results, note)

    def answer(self, listen: Listener, checks: Checks, max_tokens: int) -> Answer:
        """As Dialogue; EndpointError when the server fails, ContextOverflowError when the prompt is too long for it."""
        self._tell_reading(listen)
        reader = UrlAnswer(listen, checks, lambda: f"call_{next(self._call_numbers)}")
        body = self._body(self._messages.messages(), max_tokens)
        end, fault = AnswerEnd.INTERRUPTED, ""
        try:
            if self._ask(body, reader, listen):
                end, fault = _judged(reader, listen)
        except ToolError as error:
            end, fault = AnswerEnd.REFUSED, str(error)
        finally:
            reader.cut()
            self._keep(reader)
        return Answer(end, reader.text, reader.reasoning, reader.calls, fault, reader.tokens)

    def interrupt(self) -> None:
        """As Dialogue."""
        self._client.interrupt()

    def summarise(self, request: str, max_tokens: int, listen: Listener) -> str:
        """As Dialogue; Cancelled when interrupted."""
        aside = self._messages.copy()
        aside.say(request)
        progress = _Progress(listen, max_tokens)
        reader = UrlAnswer(progress, _NoChecks(), lambda: "call")
        body = self._body(aside.messages(), max_tokens) | self._thinking(False)
        body |= {"temperature": 0, "tool_choice": "none"}
        if not self._ask(body, reader, listen):
            raise Cancelled("the summary was interrupted; the conversation is as it was")
        return reader.text.strip()

    def shorten(self, summary: str, keep_tokens: int, listen: Listener) -> None:
        """As Dialogue; it is read again with the next answer."""
        self._messages.shorten(summary, round(keep_tokens / self._ratio))
        self._counted = (0, 0)
        listen(Compacting("rebuild", self.used_tokens, self.used_tokens))

    def _ask(self, body: Mapping[str, Any], reader: UrlAnswer, listen: Listener) -> bool:
        self._listen = listen
        try:
            return self._client.ask(body, reader)
        finally:
            self._listen = _nobody

    def _keep(self, reader: UrlAnswer) -> None:
        size = self._messages.size()
        self._messages.answered(reader.text, reader.returned_reasoning, reader.said_calls)
        if reader.prompt_tokens:
            self._ratio = min(max(reader.prompt_tokens / size, _LEAST_RATIO), _MOST_RATIO)
            self._counted = (reader.prompt_tokens + reader.tokens, self._messages.size())

    def _tell_reading(self, listen: Listener) -> None:
        """How far a server is with a prompt, it does not say; only how much is new to it, about."""
        total = self.used_tokens
        listen(Reading(0, max(total - self._counted[0], 0), min(self._counted[0], total), 0.0))

    def _body(self, messages: list[Message], max_tokens: int) -> dict[str, Any]:
        sampling = self._sampling
        body: dict[str, Any] = {
            "model": self._options.model,
            "messages": messages,
            "tools": self._messages.tools or None,
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p if sampling.temperature > 0 else None,
            "top_k": sampling.top_k if sampling.top_k > 0 else None,
            "seed": sampling.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | self._thinking(self._is_thinking) | dict(self._options.extra)

    def _thinking(self, is_on: bool) -> dict[str, Any]:
        if not is_on:
            return {"thinking": {"type": "disabled"}, "reasoning_effort": None}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": self._effort.value}


def _judged(reader: UrlAnswer, listen: Listener) -> tuple[AnswerEnd, str]:
    """How an answer that came to its end ended, and what the model is told of it."""
    if reader.unreadable:
        cut = ", because the answer was cut off at its limit" if reader.finish_reason == "length" else ""
        return AnswerEnd.FAULTY, f"{reader.unreadable}{cut}; make the call again, whole"
    if reader.calls:
        return AnswerEnd.CALLS, ""
    if reader.finish_reason == "content_filter":
        listen(Notice("the server's filter ended this answer", is_error=True))
    return (AnswerEnd.LENGTH if reader.finish_reason == "length" else AnswerEnd.DONE), ""


class _NoChecks:
    """For answers whose calls are not wanted."""

    def closed(self, tool: str, parameter: str, arguments: Mapping[str, str]) -> None:
        """Fine."""

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        """Nobody's draws are ours to choose."""
        return False


class _Progress:
    """Hears a summary being written, and tells how far it is."""

    def __init__(self, listen: Callable[[Event], None], total: int) -> None:
        self._listen = listen
        self._total = total
        self._done = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            self._done += 1
            self._listen(Compacting("summary", min(self._done, self._total), self._total))


def _nobody(event: Event) -> None:
    """Between answers."""
