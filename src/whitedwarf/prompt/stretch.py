"""Stretches of an answer from one marker to the next, read character by character: what `call_position.py` is made of.

Promises: the same characters in other pieces end in the same place; each is looked at a bounded number of times; the
same marker is found as in parse.py, whose matcher this is. Does not know what the stretches mean.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from whitedwarf.prompt.marker_matcher import Matcher, Pattern, matcher_of

Action = Callable[[], None]
Marker = tuple[str, Action]  # its text and what finding it does

_CLOSING_BEGINS = 2  # characters of a tag that make a value end, for now


class Position(Enum):
    """Where in an answer the next token stands (spec/product.md B.8)."""

    THINKING = auto()
    OUTSIDE = auto()  # the answer's own words
    STRUCTURE = auto()  # tags
    STRING_VALUE = auto()  # the body of a parameter that is text
    JSON_STRUCTURE = auto()
    JSON_STRING = auto()
    COMPLETE = auto()  # nothing can follow


@dataclass(frozen=True, slots=True)
class Limit:
    """Only so many `characters`, all of them `allowed`, may come before a marker.

    Otherwise it was no such stretch: `refused` enters another one, which reads them again.
    """

    characters: int
    allowed: re.Pattern[str]
    refused: Action


@dataclass(frozen=True, slots=True)
class Stretch:
    """What its position is and what ends it; `skips`: characters that begin no marker need not be looked at."""

    position: Position
    matcher: Matcher
    actions: tuple[Action, ...]
    limit: Limit | None = None
    keeps: bool = False  # the characters, for `StretchReader.before`
    skips: bool = False

    @property
    def is_value(self) -> bool:
        """Whether a tag that begins may turn out to be part of it."""
        return self.position in (Position.STRING_VALUE, Position.JSON_STRUCTURE)


def stretch(
    position: Position,
    markers: Sequence[Marker],
    *,
    limit: Limit | None = None,
    keeps: bool = False,
    skips: bool = False,
) -> Stretch:
    """A stretch that these markers end; the one that ends first counts, then the one listed first."""
    matcher = matcher_of(tuple([Pattern(text) for text, _ in markers]))
    return Stretch(
        position, matcher, tuple([action for _, action in markers]), limit, keeps or limit is not None, skips
    )


class StretchReader:
    """Characters in, one stretch after the other; `enter` is called before the first."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._marker_size = 0

    def enter(self, new: Stretch) -> None:
        """Go on with another stretch."""
        self._stretch = new
        self._node = new.matcher.root
        self._kept.clear()
        self.is_blank = True
        """Whether nothing but blanks has been looked at since, the latest character apart."""
        self._is_in_string = False
        self._is_escaped = False

    @property
    def is_idle(self) -> bool:
        """Whether characters that begin no marker change nothing."""
        return self._stretch.skips and self._node is self._stretch.matcher.root

    @property
    def before(self) -> str:
        """What came before the marker just found, where it is kept."""
        return "".join(self._kept)[: -self._marker_size]

    @property
    def position(self) -> Position:
        """Where the next character stands."""
        current = self._stretch
        if current.limit is not None and current.limit.allowed.fullmatch("".join(self._kept)) is None:
            return Position.OUTSIDE  # it will be found out to be no tag
        if current.is_value and self._node.longest >= _CLOSING_BEGINS:
            return Position.STRUCTURE
        if current.position is Position.JSON_STRUCTURE and self._is_in_string:
            return Position.JSON_STRING
        return current.position

    def read(self, text: str) -> None:
        """The next characters."""
        while text:
            text = self._read_some(text)

    def _read_some(self, text: str) -> str:
        """Up to where another stretch begins; what is left to read."""
        current, node = self._stretch, self._node
        matcher, begin = current.matcher, 0
        if current.skips and node is matcher.root:
            found = matcher.find_first(text)
            if found is None:
                return ""
            begin = found.start()
        for place in range(begin, len(text)):
            character = text[place]
            if current.limit is not None and len(self._kept) >= current.limit.characters + matcher.longest_pattern:
                return self._refuse(current.limit) + text[place:]
            self._look_at(character, current)
            node, _ = node.id_edges.get(character) or matcher.edge(node, character, is_of_ids=True)
            if node.match >= 0:
                return self._found(node.match) + text[place + 1 :]
            self.is_blank = self.is_blank and character.isspace()
        self._node = node
        return ""

    def _look_at(self, character: str, current: Stretch) -> None:
        if current.keeps:
            self._kept.append(character)
        if current.position is not Position.JSON_STRUCTURE:
            return
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_in_string and character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._is_in_string = not self._is_in_string

    def _found(self, match: int) -> str:
        """Act on a marker; what has to be read again."""
        current = self._stretch
        self._node = current.matcher.root
        self._marker_size = len(current.matcher.patterns[match].text)
        limit = current.limit
        if limit is not None and not (
            len(self._kept) - self._marker_size <= limit.characters and limit.allowed.fullmatch(self.before)
        ):
            return self._refuse(limit)
        current.actions[match]()
        if self._stretch is current:
            self.is_blank = False
        return ""

    def _refuse(self, limit: Limit) -> str:
        again = "".join(self._kept)
        limit.refused()
        return again
