"""The panel of one call: a line that says what it does and how it went, below it what it writes, prints and changes."""

from collections.abc import Mapping
from enum import StrEnum

from textual.content import Content

from whitedwarf.agent.tui.diff import diff_rows
from whitedwarf.agent.tui.elements import EMPTY, Code, Element, Row, Wrapped, joined
from whitedwarf.agent.tui.entries import OPENS, Entry
from whitedwarf.agent.tui.figures import duration
from whitedwarf.agent.tui.growing_text import GrowingText
from whitedwarf.agent.tui.shown import one_line, shortened
from whitedwarf.agent.tui.tool_body import ToolBody
from whitedwarf.conversation.json_value import Json

BODY_ROWS = 12  # of what is being written
OUTPUT_ROWS = 8  # of what a program prints
DIFF_ROWS = 40
_ALL = 1_000_000
_INDENT = Content("  ")


class Progress(StrEnum):
    """In words that are shown."""

    WRITING = "being written"
    WAITING = "waits"
    ASKED = "waits for your answer"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "not run"


_STYLES = {Progress.DONE: "$success", Progress.FAILED: "bold $error", Progress.DROPPED: "$warning"}


class ToolEntry(Entry):
    """`is_plain`: for ears, without signs."""

    can_fold = True

    def __init__(self, name: str, is_plain: bool = False) -> None:
        self._name = one_line(name)
        self._is_plain = is_plain
        self._summary = ""
        self._progress = Progress.WRITING
        self._seconds = 0.0
        self._body = ToolBody(name)
        self._output = GrowingText("", _INDENT, is_prose=False)
        self._result = GrowingText("", _INDENT, is_prose=False)
        self._diff: list[Content] = []

    def write(self, parameter: str, text: str, is_closed: bool) -> None:
        """The model writes more of the call."""
        self._body.feed(parameter, text, is_closed)

    def written(self) -> None:
        """The call is complete."""
        if self._progress is Progress.WRITING:
            self._progress = Progress.WAITING

    def begin(self, summary: str, arguments: Mapping[str, Json]) -> None:
        """It runs. Arguments that were not seen while they were written are shown now."""
        self._progress, self._summary = Progress.RUNNING, shortened(one_line(summary), 400)
        if self._body.is_empty:
            for name, value in arguments.items():
                self._body.feed(name, value if isinstance(value, str) else str(value), True)

    def ask(self, is_asking: bool) -> bool:
        """Whether the user is asked about it now -> whether that changed anything here."""
        before, after = (Progress.RUNNING, Progress.ASKED) if is_asking else (Progress.ASKED, Progress.RUNNING)
        if self._progress is not before:
            return False
        self._progress = after
        return True

    def print(self, text: str) -> None:
        """It shows something."""
        self._output.feed(text)

    def end(self, text: str, is_error: bool, seconds: float, diff: str) -> None:
        """It has run."""
        self._progress = Progress.FAILED if is_error else Progress.DONE
        self._seconds = seconds
        self._diff = diff_rows(diff) if diff else []
        self._result = GrowingText("", _INDENT, is_prose=is_error)
        self._result.feed(text)

    def drop(self, why: str) -> None:
        """The answer ended before the call did, or before it could run."""
        if self._progress in (Progress.WRITING, Progress.WAITING):
            self._progress = Progress.DROPPED
            self._result = GrowingText("", _INDENT)
            self._result.feed(why)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self._progress in (Progress.DONE, Progress.FAILED, Progress.DROPPED)

    def lines(self, width: int) -> list[Content]:
        """The head, and what belongs below it."""
        elements = [self._head(), *self._below(width)]
        return [*joined(elements, width), EMPTY]

    def _head(self) -> Element:
        mark = Content.styled("Tool " if self._is_plain else "● ", _STYLES.get(self._progress, "$accent"))
        took = f", {duration(self._seconds)}" if self._progress in (Progress.DONE, Progress.FAILED) else ""
        state = (f"  {self._progress.value}{took}", _STYLES.get(self._progress, "dim"))
        return Row(Content.assemble((self._what(), "bold"), state), mark, Content("  "))

    def _what(self) -> str:
        if self._name == "bash" or not (self._summary or self._body.title):
            return self._name  # the command stands below
        return self._summary or f"{self._name} {self._body.title}"

    def _below(self, width: int) -> list[Element]:
        if not self.is_over:
            return [*self._body.elements(BODY_ROWS), *self._printed(width)]
        body = [] if self._diff else self._body.elements(_ALL if self.is_open else BODY_ROWS)
        return [*body, *self._changes(), *self._told(width)]

    def _printed(self, width: int) -> list[Element]:
        if self.is_open:
            return [Wrapped(self._output.lines(width))]
        lines, left_out = self._output.last(width, OUTPUT_ROWS)
        above = [Row(Content.styled(f"  … {left_out} lines above", "dim"))] if left_out > 0 else []
        return [*above, Wrapped(lines)] if lines else []

    def _changes(self) -> list[Element]:
        if self.is_open or len(self._diff) <= DIFF_ROWS:
            return [Code(self._diff)] if self._diff else []
        return [Code(self._diff[:DIFF_ROWS]), self._more(len(self._diff) - DIFF_ROWS)]

    def _told(self, width: int) -> list[Element]:
        """What the program printed, else what the model is told; of a success only when somebody wants to see it."""
        if self._output.line_count:
            return self._printed(width)
        if self.is_open:
            return [Wrapped(self._result.lines(width))]
        if self._progress is not Progress.DONE or self._name == "bash":
            return self._first(self._result.lines(width), OUTPUT_ROWS)
        hidden = self._result.line_count
        return [self._more(hidden)] if hidden > 1 and not self._diff else []

    def _first(self, lines: list[Content], most: int) -> list[Element]:
        return [Wrapped(lines[:most]), *([self._more(len(lines) - most)] if len(lines) > most else [])]

    def _more(self, number: int) -> Element:
        return Row(Content.styled(f"  … {number} more line{'s' if number > 1 else ''} ({OPENS})", "dim"))
