"""Source code with colours while it is still being written: every line is looked at once, with a few lines before it.

What a lexer would only see with the whole text (a string that began far above) may have other colours; a long body
costs the same per line as a short one.
"""

from textual.content import Content
from textual.highlight import guess_language, highlight

from whitedwarf.agent.tui.shown import TAB, shown

LONGEST_LINE = 2000  # characters; longer ones are no source code that anybody reads
_LOOK_BACK = 10  # lines
_PLAIN = "text"


class StreamingCode:
    """Lines of code as they come. `path` tells the language where `language` does not."""

    def __init__(self, language: str = "", path: str = "") -> None:
        self._language = language or (guess_language("", path) if path else _PLAIN)
        self._source: list[str] = []
        self._partial = ""
        self.lines: list[Content] = []  # all complete ones

    def feed(self, text: str) -> None:
        """More of it."""
        *complete, self._partial = (self._partial + text).split("\n")
        if complete:
            self._add([shown(line).expandtabs(TAB) for line in complete])

    def finish(self) -> None:
        """The last line is complete, too."""
        if self._partial:
            self.feed("\n")

    @property
    def partial(self) -> Content:
        """The line that is being written."""
        return Content(shown(self._partial).expandtabs(TAB))

    def _add(self, fresh: list[str]) -> None:
        start = _beginning(self._source)
        self.lines += coloured([*self._source[start:], *fresh], self._language)[-len(fresh) :]
        self._source += fresh
        del self._source[:-_LOOK_BACK]


def coloured(lines: list[str], language: str) -> list[Content]:
    """One content per line; without colours where the language is not known or a line is too long."""
    if language != _PLAIN and all(len(line) <= LONGEST_LINE for line in lines):
        found = highlight("\n".join(lines), language=language).split("\n", allow_blank=True)
        if len(found) == len(lines):
            return found
    return [Content(line) for line in lines]


def _beginning(lines: list[str]) -> int:
    """Where to begin looking: at the last line that is not indented, else at the oldest kept one."""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index][:1].strip() and lines[index][:1] not in ")]}":
            return index
    return 0
