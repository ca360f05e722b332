"""The lines of a vector file: words with blanks between, the first of which says what the line is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.case_files import check_different, check_id
from whitedwarf.evals.text_file import read_text

_MOST_COUNT = 10_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """The words after the first, and where they are, for messages."""

    kind: str
    words: tuple[str, ...]
    where: str

    def id(self, word: str) -> str:
        return check_id(word, self.where)

    def count(self, word: str, name: str, least: int) -> int:
        """A plain whole number of at least `least`."""
        if not (word.isascii() and word.isdigit() and least <= int(word[:20]) <= _MOST_COUNT and len(word) < 20):
            raise FileFormatError(f"{self.where}: expected {name}, a whole number from {least}, got {word[:40]!r}")
        return int(word)

    def number(self, word: str, name: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise FileFormatError(f"{self.where}: expected {name}, a number, got {word[:40]!r}")
        return value

    def bytes(self, word: str) -> bytes:
        """Hexadecimal digits, two for each byte."""
        try:
            return bytes.fromhex(word)
        except ValueError as error:
            raise FileFormatError(f"{self.where}: expected bytes as hexadecimal digits, got {word[:40]!r}") from error


class Lines:
    """A file's lines in order, without comments and empty ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = [
            (number, line.split())
            for number, line in enumerate(read_text(path).splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        self._rest.reverse()

    def peek(self) -> str | None:
        """What the next line is, None at the end."""
        return self._rest[-1][1][0] if self._rest else None

    def num_words(self) -> int:
        """How many words follow what the next line is."""
        return len(self._rest[-1][1]) - 1 if self._rest else 0

    def next(self, kind: str, num_words: int) -> Line | None:
        """The next line, which must be of this kind; None at the end."""
        return self.required(kind, num_words) if self._rest else None

    def required(self, kind: str, num_words: int) -> Line:
        """The same; FileFormatError at the end, too."""
        if not self._rest:
            raise FileFormatError(f"{self._path}: expected {kind!r}, but the file ends; is it cut off?")
        number, (found, *words) = self._rest.pop()
        where = f"{self._path}, line {number}"
        if found != kind:
            raise FileFormatError(f"{where}: expected {kind!r}, found {found[:40]!r}")
        if len(words) != num_words:
            raise FileFormatError(f"{where}: expected {num_words} words after {kind!r}, found {len(words)}")
        return Line(kind, tuple(words), where)

    def check_cases(self, ids: Sequence[str]) -> None:
        """At least one case, and each once."""
        if not ids:
            raise FileFormatError(f"{self._path}: expected at least one line `case ...`, found none")
        check_different(ids, str(self._path))


def is_golden(path: Path) -> bool:
    """Whether a file has golden vectors, whose case lines have six words, and not official ones with four."""
    lines = Lines(path)
    if lines.peek() is None:
        lines.check_cases([])
    return lines.num_words() == 6
