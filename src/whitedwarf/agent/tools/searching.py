"""Looking for a pattern line by line in the files below a folder, within bounds.

Imports the standard library alone, because it is also run as a program of its own (`python -I -S searching.py`: a
Query as JSON on stdin, FileMatches and an Ending as JSON lines on stdout): Python's `re` cannot be stopped within a
line, but a process can.
"""

import errno
import fnmatch
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, field

MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 24
MAX_LINE_CHARS = 300
_CLASSES = {  # POSIX's names, within brackets
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": r"\d",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. `root` is a file or folder, without symlinks; `glob` may be empty."""

    root: str
    pattern: str
    is_case_sensitive: bool = True
    glob: str = ""
    context: int = 0
    max_results: int = 50


@dataclass(frozen=True, slots=True)
class FileMatches:
    """One file: its path below the root (empty for the root itself), and (line from 1, text, whether it matches)."""

    path: str
    rows: list[tuple[int, str, bool]]

    @property
    def matches(self) -> int:
        """Lines that match."""
        return sum(is_match for _, _, is_match in self.rows)


@dataclass(slots=True)
class Ending:
    """That was all. `has_more`: there are more matches than were asked for."""

    has_more: bool = False
    too_large: int = 0
    unreadable: int = 0
    too_deep: int = 0


@dataclass(slots=True)
class _Walk:
    query: Query
    ending: Ending = field(default_factory=Ending)

    def files(self, folder: str, depth: int = 0) -> Iterator[str]:
        """Paths of regular files in the order of their names, a folder's own before those further down."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            self.ending.unreadable += 1
            return
        yield from (entry.path for entry in entries if entry.is_file(follow_symlinks=False) and self._is_meant(entry))
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                if depth == MAX_DEPTH:
                    self.ending.too_deep += 1
                else:
                    yield from self.files(entry.path, depth + 1)

    def _is_meant(self, entry: os.DirEntry[str]) -> bool:
        glob = self.query.glob
        if not glob:
            return True
        path = os.path.relpath(entry.path, self.query.root)
        wanted = {glob, glob.replace("**/", "")}  # `**/` may stand for no folder at all
        return any(fnmatch.fnmatchcase(name, one) for name in (entry.name, path) for one in wanted)

    def text(self, path: str) -> str | None:
        """What a file holds; None for one that is binary, too large or not to be read."""
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                data = file.read(MAX_FILE_BYTES + 1) or b""  # None: a kernel's file with nothing to say yet
        except OSError as error:
            self.ending.unreadable += error.errno != errno.ENOENT
            return None
        self.ending.too_large += len(data) > MAX_FILE_BYTES
        return None if len(data) > MAX_FILE_BYTES or b"\0" in data else data.decode("utf-8", "backslashreplace")


def python_pattern(posix: str) -> str:
    """A POSIX extended expression for Python's `re`: the names of character classes are what differs."""
    return re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], found[0]), posix)


def compile_pattern(query: Query) -> re.Pattern[str]:
    """re.error, OverflowError or RecursionError for what is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "possible nested set"
        return re.compile(query.pattern, 0 if query.is_case_sensitive else re.IGNORECASE)


def search(query: Query, before_file: Callable[[], None] = lambda: None) -> Generator[FileMatches | Ending]:
    """File by file; the Ending is last. `before_file` may raise to stop it."""
    pattern = compile_pattern(query)
    walk = _Walk(query)
    left = query.max_results
    for path in walk.files(query.root) if os.path.isdir(query.root) else [query.root]:  # noqa: PTH112
        before_file()
        text = walk.text(path)
        if text is None:
            continue
        lines = text.split("\n")
        numbers = _matching(pattern, lines, left + 1)
        walk.ending.has_more = len(numbers) > left
        numbers = numbers[:left]
        if numbers:
            name = "" if path == query.root else os.path.relpath(path, query.root)
            yield FileMatches(name, _rows(pattern, lines, numbers, query.context))
        left -= len(numbers)
        if walk.ending.has_more:
            break
    yield walk.ending


def _matching(pattern: re.Pattern[str], lines: list[str], most: int) -> list[int]:
    numbers = []
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if pattern.search(line.removesuffix("\r")) and (line or number < last):  # no line follows a last line end
            numbers.append(number)
            if len(numbers) == most:
                break
    return numbers


def _rows(pattern: re.Pattern[str], lines: list[str], numbers: list[int], context: int) -> list[tuple[int, str, bool]]:
    end = len(lines) - (not lines[-1])
    matching = set(numbers)
    around = {near for number in numbers for near in range(number - context, number + context + 1) if 0 <= near < end}
    return [(near + 1, _clipped(pattern, lines[near], near in matching), near in matching) for near in sorted(around)]


def _clipped(pattern: re.Pattern[str], line: str, is_match: bool) -> str:
    """A long line around its match."""
    line = line.removesuffix("\r")
    if len(line) <= MAX_LINE_CHARS:
        return line
    found = pattern.search(line) if is_match else None
    begin = max(0, min(found.start() - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS)) if found else 0
    end = begin + MAX_LINE_CHARS
    return f"{'...' if begin else ''}{line[begin:end]}{'...' if end < len(line) else ''}"


def _main() -> None:
    for found in search(Query(**json.load(sys.stdin))):
        json.dump([type(found).__name__, asdict(found)], sys.stdout)
        print(flush=True)


if __name__ == "__main__":
    _main()
