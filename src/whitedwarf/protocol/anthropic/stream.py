"""Events to Anthropic Messages stream events.

Promises: the official events in their order (spec/recipe.md 13): message_start, blocks one after another, a ping after
the first one's start, a signature before a thinking block stops, message_delta, message_stop; or one error at the end.
Repairs are not told. Does not know HTTP.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

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
from whitedwarf.protocol.converted import NOT_MEASURED, MessagesReply, PromptUsage, ReplyIdentity
from whitedwarf.protocol.token_log import TokenLog

MessagesEvent = dict[str, Json]
_STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_STRING: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}
_PING: MessagesEvent = {"type": "ping"}


class _Block(StrEnum):
    THINKING = "thinking"
    TEXT = "text"
    TOOL_USE = "tool_use"


def sse_name(event: MessagesEvent) -> str:
    """The `event:` line that clients choose by."""
    return str(event["type"])


class MessagesStream:
    """The events of one answer. `tokens` goes unused: the dialect has no log probabilities."""

    def __init__(
        self,
        identity: ReplyIdentity,
        reply: MessagesReply,
        tokens: TokenLog | None = None,
        *,
        call_ids: CallIds | None = None,
    ) -> None:
        self._identity = identity
        self._reply = reply
        self._call_ids = call_ids or CallIds(is_thinking=reply.is_thinking)
        self._usage = NOT_MEASURED
        self._block: _Block | None = None  # the open one
        self._blocks = 0  # begun so far
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

    def begin(self, usage: PromptUsage = NOT_MEASURED, fingerprint: str | None = None) -> list[MessagesEvent]:
        """The first events, as soon as the prompt is being worked on; a thinking block is there even if it stays empty.

        The dialect has no place for `fingerprint`.
        """
        self._usage = usage
        message: dict[str, Json] = {
            "id": self._identity.id,
            "type": "message",
            "role": "assistant",
            "model": self._identity.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage_now(0),
        }
        start: MessagesEvent = {"type": "message_start", "message": message}
        return [start, *(self._enter(_Block.THINKING) if self._reply.is_thinking else [])]

    def measure(self, usage: PromptUsage) -> None:
        """What turned out since `begin` about the prompt; message_delta tells it."""
        self._usage = usage

    def take(self, events: Iterable[Event]) -> list[MessagesEvent]:
        """What tells these events; the Finished event gives the last ones."""
        return [told for event in events for told in self._told(event)]

    def fail(self, message: str, error_type: str = "api_error") -> list[MessagesEvent]:
        """The one event that ends an answer whose generation failed; nothing if it has ended already."""
        if self.is_over:
            return []
        self.is_over = True
        return [{"type": "error", "error": {"type": error_type, "message": message}}]

    def keepalive(self) -> list[MessagesEvent]:
        """An event that says nothing; clients count it as a sign of life, unlike a comment (spec/clients.md 4)."""
        return [] if self.is_over else [_PING.copy()]

    def _told(self, event: Event) -> list[MessagesEvent]:
        if self.is_over:
            return []
        match event:
            case ReasoningDelta(text):
                self._call_ids.note_reasoning()
                return [*self._enter(_Block.THINKING), self._delta("thinking_delta", "thinking", text)]
            case TextDelta(text):
                return [*self._enter(_Block.TEXT), self._delta("text_delta", "text", text)]
            case ToolCallStarted(index, name):
                return [*self._leave(), *self._start_call(index, name)]
            case ArgumentsDelta(_, fragment):
                return [self._delta("input_json_delta", "partial_json", fragment)]
            case ToolCallFinished(index):
                self._open_calls.remove(index)
                return []
            case Finished():
                return self._end(event)
            case Repair():
                return []

    def _enter(self, block: _Block) -> list[MessagesEvent]:
        """Make sure that a block of this kind is open."""
        if self._block is block:
            return []
        content: dict[str, Json] = {"type": block.value, block.value: ""}
        if block is _Block.THINKING:
            content["signature"] = ""
        return [*self._leave(), *self._start(block, content)]

    def _start_call(self, index: int, name: str) -> list[MessagesEvent]:
        self._open_calls.append(index)
        call_id = self._call_ids.new(index)
        return self._start(_Block.TOOL_USE, {"type": "tool_use", "id": call_id, "name": name, "input": {}})

    def _start(self, block: _Block, content: dict[str, Json]) -> list[MessagesEvent]:
        self._block = block
        self._blocks += 1
        start: MessagesEvent = {"type": "content_block_start", "index": self._blocks - 1, "content_block": content}
        return [start, _PING.copy()] if self._blocks == 1 else [start]

    def _leave(self) -> list[MessagesEvent]:
        """Close the open block, if there is one."""
        if self._block is None:
            return []
        told: list[MessagesEvent] = []
        if self._block is _Block.THINKING:
            signature = self._identity.id if self._reply.signature is None else self._reply.signature
            told.append(self._delta("signature_delta", "signature", signature))
        self._block = None
        return [*told, {"type": "content_block_stop", "index": self._blocks - 1}]

    def _delta(self, kind: str, key: str, text: str) -> MessagesEvent:
        return {"type": "content_block_delta", "index": self._blocks - 1, "delta": {"type": kind, key: text}}

    def _end(self, event: Finished) -> list[MessagesEvent]:
        told = self._leave()
        self.is_over = True
        delta: dict[str, Json] = {"stop_reason": _STOP_REASONS[event.reason], "stop_sequence": event.stop_string}
        usage = self._usage_now(event.completion_tokens)
        return [*told, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]

    def _usage_now(self, output_tokens: int) -> dict[str, Json]:
        return {
            "input_tokens": max(0, self._usage.prompt_tokens - self._usage.cached_tokens),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self._usage.cached_tokens,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }
