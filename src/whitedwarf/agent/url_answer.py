"""One answer of a server while it comes: told as events, its calls checked while they are written, and kept. Pure.

Knows no HTTP. What a check says (ToolError) comes out of `take`.
"""

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.agent.dialogue import Call, Checks
from whitedwarf.agent.events import Drawn, Listener
from whitedwarf.agent.parameters import ParameterReader
from whitedwarf.agent.url_messages import SaidCall
from whitedwarf.conversation.events import (
    ArgumentsDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.web.endpoint.chat_stream import ChatStream
from whitedwarf.web.endpoint.event_lines import StreamError

MOST_CALLS = 128  # in one answer


@dataclass(slots=True)
class _WrittenCall:
    """A call as far as it has come. `texts`: its complete text parameters."""

    index: int  # among our calls
    place: object  # the server's own number for it
    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    is_finished: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class UrlAnswer:
    """Reads one answer. `new_id` names calls for which the server has no name of its own."""

    def __init__(self, listen: Listener, checks: Checks, new_id: Callable[[], str]) -> None:
        self.prompt_tokens: int | None = None
        self.generated_tokens: int | None = None
        self.has_begun = False
        self._listen = listen
        self._checks = checks
        self._new_id = new_id
        self._stream = ChatStream(self)
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_WrittenCall] = []
        self._parameters = ParameterReader()
        self._num_pieces = 0
        self._began_s = 0.0

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def reasoning(self) -> str:
        return "".join(self._thoughts)

    @property
    def returned_reasoning(self) -> str:
        """What the server takes back: what it sent as `reasoning_content`."""
        return self.reasoning if self._stream.is_reasoning_apart else ""

    @property
    def finish_reason(self) -> str | None:
        return self._stream.finish_reason

    @property
    def tokens(self) -> int:
        """As the server counts, else the pieces that came."""
        return self._num_pieces if self.generated_tokens is None else self.generated_tokens

    @property
    def said_calls(self) -> list[SaidCall]:
        """All calls that have a name; of one that is not whole, what can be kept."""
        named = [call for call in self._calls if call.name]
        return [SaidCall(call.id, call.name, _object(call) or dict(call.texts)) for call in named]

    @property
    def calls(self) -> tuple[Call, ...]:
        """Those that are whole, up to the first one that is not."""
        read = ((call, _object(call)) for call in self._calls)
        whole = itertools.takewhile(lambda pair: pair[0].is_finished and pair[0].name and pair[1] is not None, read)
        return tuple(Call(call.name, arguments or {}, call.id) for call, arguments in whole)

    @property
    def unreadable(self) -> str:
        """The first call that cannot be read, in words for the model."""
        for call in self._calls:
            if not call.name:
                return f"call {call.index + 1} has no name"
            if _object(call) is None:
                return f"the arguments of {call.name} are no JSON object: {call.arguments[:200]!r}"
        return ""

    def take(self, data: str) -> None:
        """One event's data."""
        self._stream.take(data)

    def finish(self) -> None:
        """The stream has ended; StreamError where the answer had not."""
        self._stream.flush()
        self._finish_call()
        self._stream.finish()

    def cut(self) -> None:
        """No more will come: what was held back is told."""
        self._stream.flush()

    def thought(self, text: str) -> None:
        """As ChatSink."""
        if text:
            self._thoughts.append(text)
            self._tell(ReasoningDelta(text))

    def thoughts_closed(self) -> None:
        """As ChatSink."""

    def said(self, text: str) -> None:
        """As ChatSink."""
        self._texts.append(text)
        self._tell(TextDelta(text))

    def counted(self, prompt: int | None, generated: int | None) -> None:
        """As ChatSink."""
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        self.generated_tokens = self.generated_tokens if generated is None else generated

    def called(self, deltas: list[Any]) -> None:
        """As ChatSink: a piece of a call has its place, and the first one an id and the name."""
        self._stream.flush()
        for delta in deltas:
            if isinstance(delta, dict):
                self._call_delta(delta)

    def _call_delta(self, delta: dict[str, Any]) -> None:
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        call = self._open_call(delta)
        name = function.get("name")
        if not call.name and isinstance(name, str) and name:
            call.name = name
            self._tell(ToolCallStarted(call.index, name))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and arguments:
            self._arguments(call, arguments)

    def _open_call(self, delta: dict[str, Any]) -> _WrittenCall:
        place, id = delta.get("index"), delta.get("id")
        id = id if isinstance(id, str) else ""
        last = self._calls[-1] if self._calls else None
        if last is not None and not last.is_finished and _continues(last, place, id):
            return last
        known = next((call for call in self._calls if place is not None and call.place == place), None)
        if known is not None and (not id or id == known.id):
            raise StreamError(f"the server went back to a call that was over (index {place})", may_help=False)
        self._finish_call()
        if len(self._calls) == MOST_CALLS:
            raise StreamError(f"the server sent more than {MOST_CALLS} calls in one answer", may_help=False)
        taken = {call.id for call in self._calls}
        call = _WrittenCall(len(self._calls), place, id if id and id not in taken else self._new_id())
        self._calls.append(call)
        return call

    def _arguments(self, call: _WrittenCall, text: str) -> None:
        call.pieces.append(text)
        delta = ArgumentsDelta(call.index, text)
        self._tell(delta)
        for told in self._parameters.feed(delta):
            self._listen(told)
            if told.is_closed:
                call.texts = dict(self._parameters.complete)
                self._checks.closed(call.name, told.parameter, call.texts)

    def _finish_call(self) -> None:
        if self._calls and not self._calls[-1].is_finished:
            call = self._calls[-1]
            call.is_finished = True
            self._listen(ToolCallFinished(call.index, call.name, call.arguments))

    def _tell(self, event: ReasoningDelta | TextDelta | ToolCallStarted | ArgumentsDelta) -> None:
        if not self.has_begun:
            self.has_begun, self._began_s = True, time.monotonic()
        self._num_pieces += 1
        self._listen(event)
        self._listen(Drawn(self._num_pieces, time.monotonic() - self._began_s))


def _continues(call: _WrittenCall, place: object, id: str) -> bool:
    """Whether a delta with this place and id is more of the call: some servers leave out one, or both."""
    if place is not None and call.place is not None and place != call.place:
        return False
    return not id or id == call.id


def _object(call: _WrittenCall) -> dict[str, Any] | None:
    return parse_arguments(call.arguments) if call.arguments.strip() else {}
