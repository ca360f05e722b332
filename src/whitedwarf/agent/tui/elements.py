"""What a text is made of on the screen: paragraphs, code, tables; each gives its lines for a width in cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content

NARROWEST = 8  # cells for a body, whatever stands before it
WIDEST = 120  # cells of a paragraph; longer lines are hard to read
EMPTY = Content("")
MARKER = "[upto]"
_MARKER_STYLE = "bold reverse"


class Element(Protocol):
    """Something with lines."""

    def lines(self, width: int) -> list[Content]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """A paragraph: `first` stands before its first line, `rest` before the others; no wider than `widest` cells."""

    body: Content
    first: Content = EMPTY
    rest: Content = EMPTY
    widest: int = WIDEST

    def lines(self, width: int) -> list[Content]:
        """Wrapped at words."""
        room = max(NARROWEST, min(width, self.widest) - max(self.first.cell_length, self.rest.cell_length))
        wrapped = wrap(self.body, room)
        return [(self.rest if index else self.first) + line for index, line in enumerate(wrapped)]


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line, with what stands before every line of its block."""

    prefix: Content = EMPTY

    def lines(self, width: int) -> list[Content]:
        """One."""
        return [self.prefix]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""

    prefix: Content = EMPTY
    character: str = "─"

    def lines(self, width: int) -> list[Content]:
        """One."""
        return [self.prefix + Content.styled(self.character * max(3, width - self.prefix.cell_length), "dim")]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines that are folded anywhere, not at words."""

    rows: Sequence[Content]
    prefix: Content = EMPTY

    def lines(self, width: int) -> list[Content]:
        """Every line on one or more of ours."""
        room = max(NARROWEST, width - self.prefix.cell_length)
        return [self.prefix + part for row in self.rows for part in folded(row, room)]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Lines that were wrapped before, for the width that is asked."""

    rows: list[Content]

    def lines(self, width: int) -> list[Content]:
        """As they are."""
        return self.rows


@dataclass(frozen=True, slots=True)
class Table:
    """Columns side by side where there is room; otherwise one line per cell, with the column's name."""

    head: Sequence[Content]
    body: Sequence[Sequence[Content]]
    prefix: Content = EMPTY
    is_plain: bool = False  # for ears: no lines between the cells

    def lines(self, width: int) -> list[Content]:
        """As wide as the cells need, if they can have it."""
        widths = [max(cell.cell_length for cell in column) for column in zip(self.head, *self.body, strict=True)]
        room = width - self.prefix.cell_length
        if self.is_plain or sum(widths) + 3 * (len(widths) - 1) > room:
            return self._listed(width)
        between = Content.styled("─┼─".join("─" * cells for cells in widths), "dim")
        rows = [_side_by_side([cell.stylize("bold") for cell in self.head], widths), between]
        rows += [_side_by_side(row, widths) for row in self.body]
        return [self.prefix + row for row in rows]

    def _listed(self, width: int) -> list[Content]:
        lines: list[Content] = []
        for number, row in enumerate(self.body):
            if number:
                lines.append(self.prefix)
            for name, cell in zip(self.head, row, strict=True):
                label = Content.assemble(name.stylize("bold"), ": ") if name.plain else EMPTY
                lines += Row(label + cell, self.prefix, self.prefix + "  ").lines(width)
        return lines


def wrap(content: Content, width: int) -> list[Content]:
    """At words, at least one line."""
    return content.wrap(width) if content.plain else [content]


def folded(content: Content, width: int) -> list[Content]:
    """Anywhere, at least one line."""
    return [content] if content.cell_length <= width else content.fold(width)


def marked(content: Content) -> Content:
    """With the anchor of an edit highlighted; it stands in brackets, so that it is no matter of colour alone."""
    start = content.plain.find(MARKER)
    return content if start < 0 else content.stylize(_MARKER_STYLE, start, start + len(MARKER))


def joined(elements: Iterable[Element], width: int) -> list[Content]:
    """The lines of all."""
    return [line for element in elements for line in element.lines(width)]


def _side_by_side(cells: Sequence[Content], widths: Sequence[int]) -> Content:
    padded = [cell.pad_right(width - cell.cell_length) for cell, width in zip(cells, widths, strict=True)]
    return Content.styled(" │ ", "dim").join(padded)
