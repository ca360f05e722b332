"""Steers one answer on the engine's thread, and reads it there: what the model says is known before its next token.

Promises: of `Guide`. Markup is drawn greedily (protocol/call_guide.py); a parameter that closes is checked at once, and
an answer that a check refuses, or whose calls cannot be read, ends exactly there. What was read of each token waits for
the agent's thread, in order.
"""

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
        self.num_line_ends = 0
        """How many line ends the answer's text ends with, whether or not the parser has told them."""
        self._tokenizer = tokenizer
        self._calls = CallGuide(tokenizer, options)
        self._parser = OutputParser(options, tokenizer)
        self._checks = checks
        self._heard: SimpleQueue[Heard] = SimpleQueue()
        self._characters = 0  # of the open call's arguments

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
            self._count_line_ends(token)
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
        """The last of what was said, once the engine is done."""
        return list(self._read(self._parser.finish(reason)))

    def _count_line_ends(self, token: int) -> None:
        text = self._tokenizer.token_bytes(token)
        others = len(text.rstrip(b"\n"))
        self.num_line_ends = len(text) - others + (0 if others else self.num_line_ends)

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
