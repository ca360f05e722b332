"""An answer's events, told as a stream of the Responses API.

Promises: the official events in the official order (spec/recipe.md 13) under an official reply; exactly one terminal
event, whatever happens; nothing after it. Under a local reply also: a call is closed as soon as it is complete, so that
one cut off by the length is the only one called incomplete; an open call at the end is incomplete whatever the reason;
empty pieces of text are left out. Does not know HTTP, or the clock except where one is handed in.
"""

from collections.abc import Callable, Iterable, Mapping

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import NOT_MEASURED, PromptUsage, ReplyIdentity, ResponsesReply
from whitedwarf.protocol.openai_responses.calls_out import CallOut, call_item
from whitedwarf.protocol.openai_responses.items_out import (
    CarriedReasoningOut,
    ItemOut,
    ItemStatus,
    MessageOut,
    Place,
    ReasoningOut,
    SummaryOut,
    TextItemOut,
)
from whitedwarf.protocol.openai_responses.numbering import Numbering, StreamEvent
from whitedwarf.protocol.openai_responses.response_object import ResponseState, response_object, usage_object
from whitedwarf.protocol.token_log import TokenLog

_INCOMPLETE = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}


def sse_name(event: StreamEvent) -> str:
    """The name that an event has on the wire; some clients need it."""
    return str(event["type"])


class ResponsesStream:
    """One answer. `clock` gives the Unix time at which it is completed, and is otherwise the time of its creation."""

    def __init__(
        self,
        identity: ReplyIdentity,
        reply: ResponsesReply,
        tokens: TokenLog | None = None,
        *,
        call_ids: CallIds | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._identity = identity
        self._reply = reply
        self._tokens = tokens
        self._call_ids = call_ids or CallIds(is_thinking=reply.is_thinking)
        self._clock = clock or (lambda: identity.created)
        self._numbering = Numbering()
        self._usage = NOT_MEASURED
        self._output: list[dict[str, Json]] = []
        self._open: ItemOut | None = None
        self._open_calls: list[int] = []
        self._has_begun = False
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

    def begin(self, usage: PromptUsage = NOT_MEASURED, fingerprint: str | None = None) -> list[StreamEvent]:
        """The first events, unless they have been told already; no Responses event shows the fingerprint."""
        if usage is not NOT_MEASURED:
            self.measure(usage)
        if self._has_begun or self.is_over:
            return []
        self._has_begun = True
        state = ResponseState("in_progress")
        return [self._lifecycle("response.created", state), self._lifecycle("response.in_progress", state)]

    def measure(self, usage: PromptUsage) -> None:
        """What turned out since `begin` about the prompt."""
        self._usage = usage

    def take(self, events: Iterable[Event]) -> list[StreamEvent]:
        """What these events say; Finished gives the last ones. Begins the answer where nothing has."""
        told = self.begin()
        for event in events:
            if not self.is_over:
                told += self._told(event)
        return told

    def fail(self, message: str, code: str = "server_error") -> list[StreamEvent]:
        """The terminal event of an answer that cannot be finished.

        Codes that clients act on: server_error and rate_limit_exceeded (tried again), context_length_exceeded
        (compacted), invalid_prompt (given up); spec/clients.md 5. The open item is shown, but not ended: no client
        shall act on it.
        """
        if self.is_over:
            return []
        told = self.begin()
        output = [*self._output, *([] if self._open is None else [self._open.shown("incomplete")])]
        state = ResponseState("failed", output=output, error={"code": code, "message": message})
        return [*told, self._end("response.failed", state)]

    def keepalive(self) -> list[StreamEvent]:
        """An event that only shows that the server is still there; clients need the first ones before it."""
        if self.is_over:
            return []
        return [*self.begin(), self._numbering.event("keepalive")]

    def _told(self, event: Event) -> list[StreamEvent]:
        match event:
            case ReasoningDelta(text, span):
                self._call_ids.note_reasoning()
                return self._grown(_thoughts_of(self._reply), text, span)
            case TextDelta(text, span):
                return self._grown(MessageOut, text, span)
            case ToolCallStarted(index, name):
                return self._opened_call(index, name)
            case ArgumentsDelta(_, fragment):
                return self._open_call().grown(fragment)
            case ToolCallFinished(index):
                return self._finished_call(index)
            case Finished():
                return self._finished(event)
        return []

    def _grown(self, kind: type[TextItemOut], text: str, span: tuple[int, int]) -> list[StreamEvent]:
        if not text and not self._reply.is_official:
            return []
        told = []
        if not isinstance(self._open, kind):
            told = self._opened(kind(self._next_place()))
        assert isinstance(self._open, TextItemOut)
        scored = self._tokens.between(span) if self._tokens else None
        return [*told, *self._open.grown(text, scored or ())]

    def _opened_call(self, index: int, name: str) -> list[StreamEvent]:
        self._open_calls.append(index)
        return self._opened(call_item(self._reply, name, self._call_ids.new(index), self._next_place()))

    def _next_place(self) -> Place:
        return Place(self._identity.id, len(self._output) + (self._open is not None), self._numbering)

    def _opened(self, item: ItemOut) -> list[StreamEvent]:
        told = self._closed("completed", precedes_call=item.IS_CALL)
        self._open = item
        return [*told, *item.opened()]

    def _open_call(self) -> CallOut:
        assert isinstance(self._open, CallOut), "arguments come between a call's beginning and its end"
        return self._open

    def _finished_call(self, index: int) -> list[StreamEvent]:
        self._open_calls.remove(index)
        self._open_call().is_finished = True
        return [] if self._reply.is_official else self._closed("completed")

    def _closed(self, status: ItemStatus, *, precedes_call: bool = False) -> list[StreamEvent]:
        item, self._open = self._open, None
        if item is None:
            return []
        told = item.closed(status, precedes_call=precedes_call)
        self._output.append(item.shown(status))
        return told

    def _finished(self, end: Finished) -> list[StreamEvent]:
        reason = _INCOMPLETE.get(end.reason)
        status: ItemStatus = "completed" if reason is None else "incomplete"
        is_cut_call = isinstance(self._open, CallOut) and not self._reply.is_official
        told = self._closed("incomplete" if is_cut_call else status)
        usage = usage_object(
            self._usage, end.completion_tokens, end.reasoning_tokens, is_official=self._reply.is_official
        )
        state = ResponseState(status, self._clock(), self._output, usage, reason)
        return [*told, self._end(f"response.{status}", state)]

    def _end(self, kind: str, state: ResponseState) -> StreamEvent:
        self.is_over = True
        return self._lifecycle(kind, state)

    def _lifecycle(self, kind: str, state: ResponseState) -> StreamEvent:
        return self._numbering.event(kind, response=response_object(self._identity, self._reply, state))


def _thoughts_of(reply: ResponsesReply) -> type[TextItemOut]:
    if reply.is_official:
        return ReasoningOut
    return SummaryOut if reply.summarizes else CarriedReasoningOut
