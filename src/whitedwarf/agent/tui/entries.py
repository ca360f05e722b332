"""The parts of the story that the screen shows, one below the other: what was said, thought, answered, and noted.

Each gives its lines for a width, at least one, and keeps what it has wrapped. They know no widget.
"""

from abc import ABC, abstractmethod

from textual.content import Content

from whitedwarf.agent.tui.elements import EMPTY, Row, Rule, joined, wrap
from whitedwarf.agent.tui.figures import count, duration
from whitedwarf.agent.tui.growing_text import GrowingText
from whitedwarf.agent.tui.markdown import GrowingMarkdown
from whitedwarf.agent.tui.shown import TAB, shown

THOUGHT_STYLE = "dim italic"
_PREVIEW = 4  # lines of a folded thought that is still going on
OPENS = "Ctrl+O"


class Entry(ABC):
    """`is_open` is for those that can be folded: None as long as nobody has asked for either."""

    is_open: bool | None = None
    can_fold = False

    @abstractmethod
    def lines(self, width: int) -> list[Content]:
        """At least one, none wider than `width` cells where that can be."""


class Said(Entry):
    """The user's words."""

    def __init__(self, text: str) -> None:
        self._text = Content(shown(text).expandtabs(TAB))

    def lines(self, width: int) -> list[Content]:
        """With a mark before each, on a ground of its own."""
        mark = Content.styled("› ", "bold $primary")
        lines = [mark + line.stylize("bold") for line in wrap(self._text, max(1, width - 2))]
        return [*(line.pad_right(width - line.cell_length).stylize("on $panel") for line in lines), EMPTY]


class Thought(Entry):
    """What the model thinks: dim, and folded to a line when it is over."""

    can_fold = True

    def __init__(self, is_plain: bool = False) -> None:
        self._text = GrowingText(THOUGHT_STYLE, Content("  "))
        self._is_plain = is_plain
        self._is_over = False
        self._tokens = 0
        self._seconds = 0.0

    def feed(self, text: str) -> None:
        """More of it."""
        self._text.feed(text)

    def spent(self, tokens: int, seconds: float) -> None:
        """What it has cost so far."""
        self._tokens, self._seconds = tokens, seconds

    def finish(self) -> None:
        """The model goes on to something else."""
        self._is_over = True

    def lines(self, width: int) -> list[Content]:
        """A head, and as much of the text as is wanted."""
        body = self._text.lines(width) if self.is_open or not self._is_over else []
        if not self.is_open:
            body = body[-_PREVIEW:]
        head = Content(self._head()).stylize("dim")
        return [*wrap(head, width), *body, EMPTY]

    def _head(self) -> str:
        mark = "" if self._is_plain else "▾ " if self.is_open else "▸ "
        cost = f", {count(self._tokens)} tokens, {duration(self._seconds)}" if self._tokens else ""
        return f"{mark}{'Thought' if self._is_over else 'Thinking'}{cost}"


class Answered(Entry):
    """What the model says, as Markdown."""

    def __init__(self, is_plain: bool = False) -> None:
        self._text = GrowingMarkdown(is_plain)

    def feed(self, text: str) -> None:
        """More of it."""
        self._text.feed(text)

    def finish(self) -> None:
        """That was all."""
        self._text.finish()

    def lines(self, width: int) -> list[Content]:
        """Rendered; only the last block is looked at again."""
        return [*self._text.lines(width), EMPTY]


class Noted(Entry):
    """A line that is no output of the model; errors are called so."""

    def __init__(self, text: str, is_error: bool = False) -> None:
        self._is_error = is_error
        self._text = shown(text).expandtabs(TAB)

    @property
    def text(self) -> str:
        """As it is shown."""
        return self._text

    @text.setter
    def text(self, value: str) -> None:
        self._text = shown(value).expandtabs(TAB)

    def lines(self, width: int) -> list[Content]:
        """Indented below its mark."""
        style = "bold $error" if self._is_error else "dim"
        mark = Content.styled("Error: " if self._is_error else "· ", style)
        return [
            *Row(Content.styled(self._text, "" if self._is_error else style), mark, Content("  ")).lines(width),
            EMPTY,
        ]


class Told(Entry):
    """What a command has to say, as it is written: lists keep their columns. `asked` is the command."""

    def __init__(self, text: str, asked: str = "") -> None:
        self._asked = [Content.styled(shown(asked), "dim")] if asked else []
        self._lines = [Content(line) for line in shown(text).expandtabs(TAB).split("\n")]

    def lines(self, width: int) -> list[Content]:
        """Wrapped where they must be."""
        rows = [Row(line, EMPTY, Content("    "), width) for line in [*self._asked, *self._lines]]
        return [*joined(rows, width), EMPTY]


class Parted(Entry):
    """A line across, with words on it: another session begins."""

    def __init__(self, text: str, is_plain: bool = False) -> None:
        self._text = shown(text)
        self._is_plain = is_plain

    def lines(self, width: int) -> list[Content]:
        """The line, and the words."""
        words = Row(Content.styled(self._text, "bold")).lines(width)
        return [*words, EMPTY] if self._is_plain else [*Rule().lines(width), *words, EMPTY]
