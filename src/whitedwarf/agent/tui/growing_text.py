"""Plain text that grows: complete lines are wrapped once. For thoughts and for what programs print."""

from textual.content import Content

from whitedwarf.agent.tui.elements import EMPTY, Code, Row
from whitedwarf.agent.tui.shown import TAB, shown

LONGEST_LINE = 4000  # characters; what goes on without a line end is cut here
MOST_LINES = 4000  # are kept, and some more before the oldest are dropped
_DROPPED_AT = 5000


class GrowingText:
    """`style` for all of it, `prefix` before every line on the screen; `is_prose`: wrapped at words."""

    def __init__(self, style: str = "", prefix: Content = EMPTY, is_prose: bool = True) -> None:
        self._is_prose = is_prose
        self._style = style
        self._prefix = prefix
        self._lines: list[str] = []
        self._partial = ""
        self._dropped = 0
        self._width = 0
        self._wrapped: list[Content] = []
        self._counted = 0  # of `_lines`, those that are in `_wrapped`

    def feed(self, text: str) -> None:
        """More of it."""
        *complete, partial = (self._partial + text).split("\n")
        while len(partial) > LONGEST_LINE:
            complete.append(partial[:LONGEST_LINE])
            partial = partial[LONGEST_LINE:]
        self._lines += complete
        self._partial = partial
        if len(self._lines) > _DROPPED_AT:
            self._dropped += len(self._lines) - MOST_LINES
            del self._lines[:-MOST_LINES]
            self._width = 0  # to be wrapped again

    @property
    def line_count(self) -> int:
        """As the text has them, not as they are wrapped, the dropped ones too; an empty last one is none."""
        return self._dropped + len(self._lines) + bool(self._partial)

    def last(self, width: int, most: int) -> tuple[list[Content], int]:
        """The last lines, wrapped, at most so many; and how many lines of the text are left out above them."""
        kept = [*self._lines[-most:], *([self._partial] if self._partial else [])][-most:]
        wrapped = [part for line in kept for part in self._row(line).lines(width)]
        return wrapped[-most:], self.line_count - len(kept)

    def lines(self, width: int) -> list[Content]:
        """All of it."""
        if width != self._width:
            self._width, self._wrapped, self._counted = width, [], 0
        for line in self._lines[self._counted :]:
            self._wrapped += self._row(line).lines(width)
        self._counted = len(self._lines)
        return self._wrapped + (self._row(self._partial).lines(width) if self._partial else [])

    def _row(self, line: str) -> Row | Code:
        text = Content.styled(shown(_overwritten(line)).expandtabs(TAB), self._style)
        return Row(text, self._prefix, self._prefix) if self._is_prose else Code([text], self._prefix)


def _overwritten(line: str) -> str:
    """What is left of a line that a program wrote over again, as progress bars do."""
    return line.rstrip("\r").rsplit("\r", 1)[-1]
