"""Events to Chat Completions chunks.

Promises: the official chunks in their order (spec/recipe.md 13), one for each event that is told; a stream that was
begun ends with exactly one chunk that has a finish reason, or one error. Repairs are not told. Does not know HTTP.
"""

from collections.abc import Iterable, Mapping

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Repair,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import NOT_MEASURED, ChatReply, PromptUsage, ReplyIdentity
from whitedwarf.protocol.custom_input import CustomInput
from whitedwarf.protocol.openai_usage import openai_usage
from whitedwarf.protocol.token_log import TokenLog

SSE_DONE = "[DONE]"
Chunk = dict[str, Json]


class ChatStream:
    """The chunks of one answer. With `tokens`, deltas carry their log probabilities."""

    def __init__(
        self,
        identity: ReplyIdentity,
        reply: ChatReply,
        tokens: TokenLog | None = None,
        *,
        call_ids: CallIds | None = None,
    ) -> None:
        self._identity = identity
        self._reply = reply
        self._tokens = tokens
        self._call_ids = call_ids or CallIds(is_thinking=reply.is_thinking)
        self._fingerprint: str | None = None
        self._usage = NOT_MEASURED
        self._inputs: dict[int, CustomInput] = {}  # of the custom calls
        self._open_calls: list[int] = []
        self.is_over = False
        """Whether the last event was told; nothing comes after it."""

    @property
    def call_ids(self) -> Mapping[int, str]:
        """What clients know the calls by that were told so far."""
        return self._call_ids.given

    @property
    def unfinished_calls(self) -> tuple[int, ...]:
        """Calls that were begun and not completed: nobody may execute them."""
        return tuple(self._open_calls)

    def begin(self, usage: PromptUsage = NOT_MEASURED, fingerprint: str | None = None) -> list[Chunk]:
        """The first chunk, as soon as the prompt is being worked on."""
        self._usage = usage
        self._fingerprint = fingerprint
        delta: dict[str, Json] = {"role": "assistant", "content": ""}
        if self._reply.is_thinking:
            opens = self._reply.continues_answer
            delta |= {"content": "" if opens else None, "reasoning_content": None if opens else ""}
        return [self._chunk(delta)]

    def measure(self, usage: PromptUsage) -> None:
        """What turned out since `begin` about the prompt."""
        self._usage = usage

    def take(self, events: Iterable[Event]) -> list[Chunk]:
        """The chunks that tell these events; the Finished event gives the last ones."""
        return [chunk for event in events for chunk in self._told(event)]

    def fail(self, message: str, error_type: str = "server_error") -> list[Chunk]:
        """The one chunk that ends an answer whose generation failed; nothing if it has ended already."""
        if self.is_over:
            return []
        self.is_over = True
        return [{"error": {"message": message, "type": error_type, "param": None, "code": error_type}}]

    def keepalive(self) -> list[Chunk]:
        """A chunk that says nothing; clients count it as a sign of life, unlike a comment (spec/clients.md 4)."""
        return [] if self.is_over else [self._frame([], None)]

    def _told(self, event: Event) -> list[Chunk]:
        if self.is_over:
            return []
        match event:
            case ReasoningDelta(text, span):
                self._call_ids.note_reasoning()
                delta: dict[str, Json] = {"content": None, "reasoning_content": text}
                return [self._chunk(delta, self._logprobs("reasoning_content", span))]
            case TextDelta(text, span):
                return [self._chunk(self._content(text), self._logprobs("content", span))]
            case ToolCallStarted(index, name):
                return [self._call_chunk(index, self._call_start(index, name))]
            case ArgumentsDelta(index, fragment):
                return self._arguments(index, fragment)
            case ToolCallFinished(index):
                return self._call_end(index)
            case Finished():
                return self._end(event)
            case Repair():
                return []

    def _content(self, text: str) -> dict[str, Json]:
        if self._reply.is_thinking:
            return {"content": text, "reasoning_content": None}
        return {"content": text}

    def _logprobs(self, key: str, span: tuple[int, int]) -> Json:
        scored = self._tokens.between(span) if self._tokens is not None else None
        return None if scored is None else {key: [token.as_json() for token in scored]}

    def _call_start(self, index: int, name: str) -> dict[str, Json]:
        self._open_calls.append(index)
        call_id = self._call_ids.new(index)
        if name in self._reply.custom_tools:
            self._inputs[index] = CustomInput(only_leading=False)
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": ""}}
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}

    def _arguments(self, index: int, fragment: str) -> list[Chunk]:
        plain = self._inputs.get(index)
        if plain is None:
            return [self._call_chunk(index, {"function": {"arguments": fragment}})]
        return self._input(index, plain.feed(fragment))

    def _call_end(self, index: int) -> list[Chunk]:
        self._open_calls.remove(index)
        plain = self._inputs.get(index)
        return [] if plain is None else self._input(index, plain.finish(is_complete=True))

    def _input(self, index: int, text: str) -> list[Chunk]:
        return [self._call_chunk(index, {"custom": {"input": text}})] if text else []

    def _end(self, event: Finished) -> list[Chunk]:
        self.is_over = True
        reason = FinishReason.STOP if event.reason is FinishReason.STOP_STRING else event.reason
        usage = openai_usage(self._usage, event, is_thinking=self._reply.is_thinking)
        if self._reply.usage_chunk:
            return [self._chunk(self._content(""), None, reason.value), self._frame([], usage)]
        return [self._chunk(self._content(""), None, reason.value, usage)]

    def _call_chunk(self, index: int, call: dict[str, Json]) -> Chunk:
        return self._chunk({"tool_calls": [{"index": index, **call}]})

    def _chunk(self, delta: Json, logprobs: Json = None, reason: str | None = None, usage: Json = None) -> Chunk:
        return self._frame([{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}], usage)

    def _frame(self, choices: list[Json], usage: Json) -> Chunk:
        frame: Chunk = {
            "id": self._identity.id,
            "object": "chat.completion.chunk",
            "created": self._identity.created,
            "model": self._identity.model,
            "system_fingerprint": self._fingerprint,
            "choices": choices,
        }
        return frame if usage is None and self._reply.omits_null_usage else frame | {"usage": usage}
