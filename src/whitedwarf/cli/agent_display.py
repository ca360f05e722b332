"""What the agent does, as lines: for terminals without a full screen, for scripts, and for logs.

Promises: on a terminal nothing that a model, a tool or a file says is obeyed; a reader who is gone ends the writing and
is told once, to `broken`; called on the agent's thread, never raises.
"""

from collections.abc import Callable
from typing import TextIO

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    Notice,
    QueueChanged,
    Reading,
    ToolBegan,
    ToolEnded,
    ToolOutput,
    TurnEnded,
)
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.screen import GREY, PLAIN, Piece, Screen, shown_on, wants_colour
from whitedwarf.conversation.events import ReasoningDelta, TextDelta

RED, GREEN, CYAN = "\033[31m", "\033[32m", "\033[36m"
_MOST_ERROR_LINES = 6
_LAST = (AnswerEnd.DONE, AnswerEnd.LENGTH, AnswerEnd.INTERRUPTED)  # no other answer of the turn comes after it


class AgentDisplay:
    """`said` gets what the model and its tools say, `notes` everything else. With `holds_answer`, the last answer is
    not shown: `answer` has it."""

    def __init__(
        self,
        said: TextIO,
        notes: TextIO,
        broken: Callable[[], None] = lambda: None,
        *,
        holds_answer: bool = False,
    ) -> None:
        self.error: OSError | None = None
        self.end: AnswerEnd | None = None  # of the last turn
        self.answer = ""  # the text of the last answer
        self.has_failed = False  # an error was told since the turn began
        self.broken = broken
        self._said, self._notes = said, notes
        self._holds_answer = holds_answer
        self._screen = Screen(said)
        self._progress = ProgressLine(notes)
        self._is_open = False  # a line of the answer
        self._texts: list[str] = []
        self._drawn: Drawn | None = None

    def listen(self, event: Event) -> None:
        """As agent.events.Listener."""
        if self.error is not None:
            return
        try:
            self._show(event)
        except OSError as error:
            self.error = error
            self.broken()

    def note(self, text: str, is_error: bool = False) -> None:
        """A line that is no event. Raises OSError."""
        self._close()
        self._write(self._notes, f"{text}\n", RED if is_error else GREY)

    def _show(self, event: Event) -> None:
        match event:
            case ReasoningDelta(text) | TextDelta(text):
                if text:
                    self._piece(text, isinstance(event, ReasoningDelta))
            case Reading():
                self._read(event)
            case Drawn():
                self._drawn = event
            case AnswerEnded(end=end, fault=fault):
                self._end_answer(end, fault)
            case ToolBegan() | ToolOutput() | ToolEnded():
                self._tool(event)
            case Notice():
                self.has_failed = self.has_failed or event.is_error
                self.note(event.text, event.is_error)
            case Compacting(step, done, total):
                self._close()
                self._progress.show(f"shortening the context ({step}): {done}/{total} tokens")
            case QueueChanged(waiting) if waiting:
                self.note(f"waiting: {len(waiting)}")
            case TurnEnded():
                self._end_turn(event)

    def _piece(self, text: str, is_thought: bool) -> None:
        if not is_thought:
            self._texts.append(text)
            if self._holds_answer:
                return
        self._progress.clear()
        self._screen.show(Piece(text, is_thought))
        self._is_open = True

    def _read(self, event: Reading) -> None:
        self._close()
        self._texts.clear()
        if event.done and event.total:
            speed = f", {event.done / event.seconds:.0f} t/s" if event.seconds > 0 else ""
            self._progress.show(f"reading {event.done}/{event.total} tokens ({event.reused} known){speed}")

    def _end_answer(self, end: AnswerEnd, fault: str) -> None:
        self.answer = "".join(self._texts)
        self._texts.clear()
        if self._holds_answer and self.answer and end not in _LAST:
            self._screen.show(Piece(self.answer, False))
            self._is_open = True
        self._close()
        if end in (AnswerEnd.REFUSED, AnswerEnd.FAULTY):
            self.note(f"the call was not right: {fault}")

    def _tool(self, event: ToolBegan | ToolOutput | ToolEnded) -> None:
        self._close()
        match event:
            case ToolBegan(summary=summary):
                self._line(f"[tool] {summary}", CYAN)
            case ToolOutput(text=text):
                self._screen.show(Piece(text, False))
                self._is_open = True
            case ToolEnded(text=text, is_error=True):
                for line in text.splitlines()[:_MOST_ERROR_LINES]:
                    self._line(f"  {line}", RED)
            case ToolEnded(diff=diff):
                for line in diff.splitlines():
                    self._line(line, {"+": GREEN, "-": RED}.get(line[:1], ""))

    def _end_turn(self, event: TurnEnded) -> None:
        self._close()
        self.end = event.end
        drawn, self._drawn = self._drawn, None
        if drawn is not None and drawn.seconds > 0:
            speed = f"{drawn.tokens / drawn.seconds:.1f} t/s, "
            self._write(self._notes, f"{speed}{event.used_tokens} tokens in the context\n", GREY)

    def _line(self, text: str, colour: str) -> None:
        self._write(self._said, f"{text}\n", colour)

    def _write(self, stream: TextIO, text: str, colour: str) -> None:
        shown = shown_on(stream, text)
        stream.write(f"{colour}{shown}{PLAIN}" if colour and wants_colour(stream) else shown)
        stream.flush()

    def _close(self) -> None:
        """End the line that is open."""
        self._progress.clear()
        if self._is_open:
            self._screen.finish()
            self._is_open = False
