"""read and more: a file in numbered chunks. Both go on from one cursor.

Promises: read and any number of more give the whole file, each character once, also where a line is longer than an
answer may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.agent.guarded_files import Version
from whitedwarf.agent.text_lines import TextLines
from whitedwarf.agent.tool import Arguments, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.definition import define, flag, number, text
from whitedwarf.agent.workspace import Workspace, shown

USUAL_LINES = 500
MAX_LINES = 1_000_000
MAX_ANSWER_CHARS = 1 << 18


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read on: a line, from 0, and a character in it."""

    line: int
    char: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines, except that the first may begin and the last may end within one. `after`: None at the end."""

    start: Place
    texts: Sequence[str]
    after: Place | None


def take(lines: Sequence[str], start: Place, count: int, most_chars: int) -> Piece:
    """Up to `count` lines and `most_chars` characters from a place on; never nothing while something is left."""
    texts: list[str] = []
    left = most_chars
    for index in range(start.line, min(start.line + count, len(lines))):
        begin = start.char if index == start.line else 0
        line = lines[index][begin:]
        if len(line) > left:
            if texts:
                return Piece(start, texts, Place(index))
            return Piece(start, [line[:left]], Place(index, begin + left))
        texts.append(line)
        left -= len(line)
    end = start.line + len(texts)
    return Piece(start, texts, Place(end) if end < len(lines) else None)


@dataclass(frozen=True, slots=True)
class _Cursor:
    path: str
    version: Version
    place: Place | None
    is_raw: bool


class Reader:
    """Reads files of a workspace and remembers where the last reading ended."""

    def __init__(self, workspace: Workspace, most_chars: int = MAX_ANSWER_CHARS) -> None:
        self._workspace = workspace
        self._most_chars = most_chars
        self._cursor: _Cursor | None = None

    @property
    def next_path(self) -> str:
        """What `go_on` would read; empty for nothing."""
        return self._cursor.path if self._cursor and self._cursor.place else ""

    @property
    def next_line(self) -> int:
        """From which line on, from 1."""
        return self._cursor.place.line + 1 if self._cursor and self._cursor.place else 1

    def read(self, path: str, start_line: int, max_lines: int, is_whole: bool, is_raw: bool) -> str:
        """What the model is told. ToolError for a line that is not there, and for a whole that is too much."""
        content, version = self._content(path)
        if start_line > max(1, len(content.lines)):
            raise ToolError(f"{shown(path)}: has {len(content.lines)} lines; start_line {start_line} is behind its end")
        start = Place(start_line - 1)
        if is_whole:
            return self._whole(path, content, version, start, is_raw)
        return self._told(path, content, version, start, max_lines, is_raw)

    def go_on(self, count: int) -> str:
        """The next lines of the same file, in the same form. ToolError where there are none."""
        cursor = self._cursor
        if cursor is None:
            raise ToolError("there is nothing to go on with; read a file first")
        if cursor.place is None:
            raise ToolError(f"{shown(cursor.path)} was read to its end; use read to see other lines of it again")
        content, version = self._content(cursor.path)
        note = "" if version == cursor.version else "it changed since the last reading"
        if cursor.place.line >= len(content.lines):
            raise ToolError(f"{shown(cursor.path)} is shorter now: {len(content.lines)} lines; read it again")
        return self._told(cursor.path, content, version, cursor.place, count, cursor.is_raw, note)

    def _content(self, path: str) -> tuple[TextLines, Version]:
        file = self._workspace.read(path)
        place = file.data.find(b"\0")
        if place >= 0:
            raise ToolError(
                f"{shown(path)}: is a binary file (NUL at byte {place}); look at it with bash (file, xxd, strings)"
            )
        return TextLines(file.data), file.version

    def _whole(self, path: str, content: TextLines, version: Version, start: Place, is_raw: bool) -> str:
        size = sum(map(len, content.lines[start.line :]))
        if size > self._most_chars:
            raise ToolError(
                f"{shown(path)}: {size} characters are too many to read whole; at most {self._most_chars}. "
                "Read it in chunks: without whole, then more"
            )
        return self._told(path, content, version, start, max(1, len(content.lines)), is_raw)

    def _told(
        self, path: str, content: TextLines, version: Version, start: Place, count: int, is_raw: bool, note: str = ""
    ) -> str:
        piece = take(content.lines, start, count, self._most_chars)
        self._cursor = _Cursor(path, version, piece.after, is_raw)
        if is_raw:
            return _raw(content, piece, note)
        return _numbered(path, content, piece, note)


def _span(content: TextLines, piece: Piece) -> str:
    first = piece.start.line + 1 if piece.texts else 0
    return f"lines {first}-{piece.start.line + len(piece.texts)} of {len(content.lines)}"


def _go_on(piece: Piece) -> list[str]:
    after = piece.after
    if after is None:
        return []
    if after.char:
        return [f"line {after.line + 1} goes on at character {after.char + 1}", "call more to go on"]
    return [f"continue_offset={after.line + 1}", "call more to go on"]


def _raw(content: TextLines, piece: Piece, note: str) -> str:
    body = "".join(piece.texts)
    notes = [*([note] if note else []), *_go_on(piece)]
    if not notes:
        return body
    line_end = "" if body.endswith("\n") else "\n"
    return f"{body}{line_end}[{'; '.join([_span(content, piece), *notes])}]"


def _numbered(path: str, content: TextLines, piece: Piece, note: str) -> str:
    notes = [note] if note else []
    if not content.data:
        notes.append("the file is empty")
    if piece.start.char:
        notes.append(f"line {piece.start.line + 1} from character {piece.start.char + 1} on")
    notes += content.notes
    if content.data and piece.after is None and not content.data.endswith(b"\n"):
        notes.append("no line end at the end")
    header = "; ".join([f"{shown(path)}: {_span(content, piece)}", *notes, *_go_on(piece)])
    rows = (f"{piece.start.line + index + 1} {_bare(line)}" for index, line in enumerate(piece.texts))
    return "\n".join([header, *rows])


def _bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


class Read(Tool):
    """A file, or a part of it."""

    definition = define(
        "read",
        "Read a text file as numbered lines.",
        ["path"],
        path=text("File to read."),
        start_line=number("First line, from 1. Default 1.", 1, MAX_LINES),
        max_lines=number(f"At most so many lines. Default {USUAL_LINES}.", 1, MAX_LINES),
        whole=flag("Read everything from start_line on; fails if that is too much. Default false."),
        raw=flag("The bare text, without numbers and header. Default false."),
    )

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        path = shown(str(arguments.values.get("path", "")))
        try:
            start, count, is_whole, _ = _read_options(arguments)
        except ToolError:
            return f"Reading {path}"
        if is_whole:
            return f"Reading {path} {start}:" if start > 1 else f"Reading all of {path}"
        return f"Reading {path} {start}:{start + count - 1}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        return Outcome(self._reader.read(arguments.text("path"), *_read_options(arguments)))


def _read_options(arguments: Arguments) -> tuple[int, int, bool, bool]:
    return (
        arguments.number("start_line", 1, 1, MAX_LINES),
        arguments.number("max_lines", USUAL_LINES, 1, MAX_LINES),
        arguments.flag("whole"),
        arguments.flag("raw"),
    )


class More(Tool):
    """What comes after the last reading."""

    definition = define(
        "more",
        "Go on with the file read last, in the same form.",
        [],
        count=number(f"How many lines. Default {USUAL_LINES}.", 1, MAX_LINES),
    )

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        if not self._reader.next_path:
            return "Reading on"
        return f"Reading on in {shown(self._reader.next_path)} from line {self._reader.next_line}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        return Outcome(self._reader.go_on(arguments.number("count", USUAL_LINES, 1, MAX_LINES)))
