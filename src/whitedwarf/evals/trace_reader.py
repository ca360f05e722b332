"""Reading a trace (trace.py): by the byte counts of its texts, whatever stands in them.

Promises: a part that is whole is read whole, and what is broken is told with its place, after all parts before it. No
more than the file is kept in memory.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.text_file import read_bytes
from whitedwarf.evals.trace import HEADER, SUMMARY

MOST_BYTES = 4 << 30
_HEADING = re.compile(rb"===== (.+) =====")
_CASE = re.compile(r"CASE ([0-9]{1,9})/([0-9]{1,9}) (\S+)")
_BEGIN = re.compile(rb"([A-Z_]+)_BEGIN bytes=([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Part:
    """What stands below one heading: facts, and texts by their names. It ends at byte `end_bytes` of the file."""

    title: str
    facts: Mapping[str, str]
    texts: Mapping[str, bytes]
    end_bytes: int


@dataclass(frozen=True, slots=True)
class CasePart:
    """The block of one asking. `number` is the case's, counted from 1."""

    number: int
    name: str
    facts: Mapping[str, str]
    texts: Mapping[str, bytes]
    end_bytes: int


@dataclass(frozen=True, slots=True)
class Trace:
    """`fault` says what could not be read behind the last of `cases`; None where all could. Up to `end_bytes` all is
    whole: the header and cases with their outputs, no summary."""

    header: Mapping[str, str]
    cases: tuple[CasePart, ...]
    summary: Mapping[str, str] | None
    fault: str | None
    end_bytes: int


def read_trace_file(path: Path) -> Trace:
    """UsageError for a file that cannot be read, FileFormatError for one that does not begin like a trace."""
    data = read_bytes(path, MOST_BYTES)
    try:
        return read_trace(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error


def read_trace(data: bytes) -> Trace:
    """Everything up to the end or the first fault; FileFormatError where not even the beginning can be read."""
    walk = _Walk(data)
    header: Mapping[str, str] = {}
    cases: list[CasePart] = []
    summary, end_bytes = None, 0
    try:
        while (part := walk.next_part()) is not None:
            if part.title == SUMMARY:
                summary = part.facts
                continue
            if part.title == HEADER:
                header = part.facts
            else:
                cases.append(_case_part(part))
            if part.title == HEADER or "MODEL_OUTPUT" in part.texts:  # the last thing that is written of a case
                end_bytes = part.end_bytes
    except FileFormatError as error:
        if not cases and not header:
            raise
        return Trace(header, tuple(cases), summary, str(error), end_bytes)
    return Trace(header, tuple(cases), summary, None, end_bytes)


def _case_part(part: Part) -> CasePart:
    found = _CASE.fullmatch(part.title)
    if found is None:
        raise FileFormatError(f"expected a heading such as ===== CASE 1/92 science/x =====, got {part.title!r}")
    return CasePart(int(found[1]), found[3], part.facts, part.texts, part.end_bytes)


class _Walk:
    """A place in the bytes of a trace."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def next_part(self) -> Part | None:
        """The part that begins here; None at the end. FileFormatError where it is broken or cut."""
        start = self._at
        while (line := self._line()) == b"":
            pass
        if line is None:
            return None
        found = _HEADING.fullmatch(line)
        if found is None:
            raise FileFormatError(f"byte {start}: expected a heading such as ===== CASE … =====, got {_shown(line)}")
        facts, texts = self._body()
        return Part(_text(found[1]), facts, texts, self._at)

    def _body(self) -> tuple[dict[str, str], dict[str, bytes]]:
        facts: dict[str, str] = {}
        texts: dict[str, bytes] = {}
        while True:
            start = self._at
            line = self._line()
            if line is None or line == b"" or _HEADING.fullmatch(line):
                self._at = start
                return facts, texts
            if begin := _BEGIN.fullmatch(line):
                texts[_text(begin[1])] = self._block(_text(begin[1]), int(begin[2]), start)
                continue
            key, equals, value = line.partition(b"=")
            if not equals:
                raise FileFormatError(f"byte {start}: expected key=value, got {_shown(line)}")
            facts[_text(key)] = _text(value)

    def _block(self, name: str, size: int, start: int) -> bytes:
        end = self._at + size
        mark = f"\n{name}_END\n".encode()
        if self._data[end : end + len(mark)] != mark:
            raise FileFormatError(
                f"byte {start}: {name} does not end after its {size} bytes; the file was cut or edited"
            )
        text = self._data[self._at : end]
        self._at = end + len(mark)
        return text

    def _line(self) -> bytes | None:
        """The next line without its end; None where there is none. FileFormatError for one that was cut."""
        if self._at >= len(self._data):
            return None
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise FileFormatError(f"byte {self._at}: the last line is cut: {_shown(self._data[self._at :])}")
        line = self._data[self._at : end]
        self._at = end + 1
        return line


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _shown(line: bytes) -> str:
    return repr(_text(line[:60]))
