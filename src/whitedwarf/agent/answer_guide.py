"""Steers one answer on the engine's thread, and reads it there: what the model says is known before its next token.

Promises: of `Guide`. Markup is drawn greedily (protocol/call_guide.py); a parameter that closes is checked at once, and
an answer that a check refuses, or whose calls cannot be read, ends exactly there. What was read of each token waits for
the agent's thread, in order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from whitedwarf.agent.dialogue import Checks
from whitedwarf.agent.events import AnswerEnd, Event
from whitedwarf.agent.parameters import ParameterReader
from whitedwarf.agent.tool import ToolError
from whitedwarf.conversation.events import (
    ArgumentsDelta,
    BackendReason,
    Finished,
    Repair,
    RepairKind,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.conversation.events import Event as Parsed
from whitedwarf.engine.guide import Course, Mask
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide

MAX_CALL_CHARACTERS = 128 << 10
_OVER = Course(is_over=True)
_VALUE_BEGINS = re.compile(r"""["']>""")  # as in prompt/salvage_call.py
_FAULTS = {
    RepairKind.CALL_IN_REASONING: "a call stood inside the thinking, where none may be; close the thought first",
    RepairKind.TRUNCATED_CALL: "the block of calls was cut off before it was complete",
    RepairKind.EMPTY_BLOCK: "the block of calls held no call",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an answer was ended, or does not count."""

    end: AnswerEnd
    text: str


CUT_OFF = Fault(AnswerEnd.FAULTY, _FAULTS[RepairKind.TRUNCATED_CALL])


@dataclass(frozen=True, slots=True)
class Heard:
    """What a token told, and how the next one is drawn."""

    events: tuple[Event, ...]
    is_greedy: bool


class AnswerGuide:
    """The `Guide` of one answer. `take` and `finish` are the agent's thread's, all else the engine's."""

    def __init__(self, tokenizer: Tokenizer, options: ParseOptions, checks: Checks) -> None:
        self.fault: Fault | None = None
        self.parameters = ParameterReader()
        self.tool = ""
        """The open call's."""
        self._tokenizer = tokenizer
        self._special_ids = frozenset(tokenizer.vocabulary.special_ids.values())
        self._since_control: list[bytes] = []  # what the tokens since the last control token stand for
        self._calls = CallGuide(tokenizer, options)
        self._parser = OutputParser(options, tokenizer)
        self._checks = checks
        self._heard: SimpleQueue[Heard] = SimpleQueue()
        self._characters = 0  # of the open call's arguments
        self._num_calls = 0  # that are complete

    @property
    def course(self) -> Course:
        """How the answer begins."""
        return self._calls.course

    def mask(self) -> Mask | None:
        """Anything may be said."""
        return None

    def accept(self, token: int) -> Course:
        """This token was drawn; it is heard in any case, so that whoever waits for it does not wait in vain."""
        course = _OVER
        events: tuple[Event, ...] = ()
        try:
            events = tuple(self._read(self._parser.feed_ids((token,))))
            course = self._calls.accept(token)
            self._keep(token)
        finally:
            self._heard.put(Heard(events, course.is_greedy))
        return course if self.fault is None else _OVER

    def take(self, timeout_s: float) -> Heard | None:
        """What the next token told; None where it has not come."""
        try:
            return self._heard.get(timeout=timeout_s)
        except Empty:
            return None

    def finish(self, reason: BackendReason) -> list[Event]:
        """The last of what was said, once the engine is done; a block that was begun, but has no call, is a fault."""
        events = list(self._read(self._parser.finish(reason)))
        if self._calls.course.is_inside_call and not self._num_calls:
            self.fault = self.fault or CUT_OFF
        return events

    @property
    def ends_line(self) -> bool:
        """Whether the latest token ends a line."""
        return bool(self._since_control) and self._since_control[-1].endswith(b"\n")

    @property
    def value(self) -> str:
        """What is written of the open parameter: the parser holds back what may turn out to be a tag."""
        text = b"".join(self._since_control).decode(errors="replace")
        opened = _VALUE_BEGINS.search(text)
        return text[opened.end() :] if opened else ""

    def _keep(self, token: int) -> None:
        if token in self._special_ids:
            self._since_control.clear()
        else:
            self._since_control.append(self._tokenizer.token_bytes(token))

    def _read(self, events: Iterable[Parsed]) -> Iterable[Event]:
        for event in events:
            if self.fault is not None or isinstance(event, Finished):
                return
            yield event
            match event:
                case ToolCallStarted(_, name):
                    self.tool = name
                    self._characters = 0
                case ArgumentsDelta():
                    yield from self._read_arguments(event)
                case ToolCallFinished():
                    self._num_calls += 1
                case Repair(kind) if kind in _FAULTS:
                    self.fault = Fault(AnswerEnd.FAULTY, _FAULTS[kind])

    def _read_arguments(self, delta: ArgumentsDelta) -> Iterable[Event]:
        self._characters += len(delta.json_fragment)
        if self._characters > MAX_CALL_CHARACTERS:
            self.fault = Fault(
                AnswerEnd.FAULTY, f"the call was longer than {MAX_CALL_CHARACTERS} characters; make it in smaller parts"
            )
        for told in self.parameters.feed(delta):
            yield told
            if told.is_closed:
                self._check(told.parameter)

    def _check(self, parameter: str) -> None:
        try:
            self._checks.closed(self.tool, parameter, dict(self.parameters.complete))
        except ToolError as error:
            self.fault = self.fault or Fault(AnswerEnd.REFUSED, str(error))
