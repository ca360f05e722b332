"""search: a text or a regular expression in the files below a folder.

Promises: no pattern and no tree holds the agent up for more than TIME_LIMIT_S; what was found by then is told. Regular
expressions run in a process of their own, which is ended; literal texts cannot take long on a line.
"""

import contextlib
import json
import re
import select
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from whitedwarf.agent.tool import Arguments, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools import searching
from whitedwarf.agent.tools.definition import define, flag, number, text
from whitedwarf.agent.tools.searching import Ending, FileMatches, Query
from whitedwarf.agent.workspace import Workspace, shown

TIME_LIMIT_S = 20.0
MAX_QUERY_CHARS = 4096
MAX_ANSWER_CHARS = 1 << 16
_LOOK_S = 0.1
_Found = FileMatches | Ending


class Search(Tool):
    """Lines that hold a text or match a pattern."""

    definition = define(
        "search",
        "Search text files below a folder, line by line. .git, binary files and symlinks are left out.",
        ["query"],
        query=text("What to look for."),
        path=text("Folder or file to search. Default: the workspace."),
        mode=text("literal (default), or regex: a POSIX extended regular expression.", ["literal", "regex"]),
        glob=text("Only files whose name or path matches, such as *.py. Default: all."),
        context=number("Lines to show before and after a match. Default 0.", 0, 5),
        max_results=number("At most so many matches. Default 50.", 1, 500),
        case_sensitive=flag("Default true."),
    )

    def __init__(self, workspace: Workspace, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._workspace = workspace
        self._time_limit_s = time_limit_s

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        query, path = (shown(str(arguments.values.get(name, usual))) for name, usual in (("query", ""), ("path", ".")))
        return f'Searching "{query}" in {path}'

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        is_regex = _is_regex(arguments)
        path = arguments.text("path", ".")
        query = Query(
            root=str(self._existing(path)),
            pattern=_pattern(arguments.text("query"), is_regex),
            is_case_sensitive=arguments.flag("case_sensitive", True),
            glob=arguments.text("glob", ""),
            context=arguments.number("context", 0, 0, 5),
            max_results=arguments.number("max_results", 50, 1, 500),
        )
        _check_pattern(query)
        report = _Report(path, arguments.text("query"), query.max_results)
        end = time.monotonic() + self._time_limit_s
        report.add((_in_a_process if is_regex else _here)(query, running, end))
        return Outcome(report.text())

    def _existing(self, path: str) -> Path:
        real = self._workspace.locate(path)
        try:
            real.stat()
        except OSError as error:
            raise ToolError(f"{shown(path)}: cannot be searched ({error.strerror}); look with list") from error
        return real


def _is_regex(arguments: Arguments) -> bool:
    mode = arguments.text("mode", "literal").strip().lower() or "literal"
    if mode not in ("literal", "regex"):
        raise ToolError(f"expected mode to be literal or regex, got {mode[:80]!r}")
    return mode == "regex"


def _pattern(query: str, is_regex: bool) -> str:
    if not query:
        raise ToolError("query is empty; give the text to look for")
    if len(query) > MAX_QUERY_CHARS:
        raise ToolError(f"query has {len(query)} characters; at most {MAX_QUERY_CHARS} can be looked for")
    if not is_regex and "\n" in query.strip("\n"):
        raise ToolError("query has a line break, and lines are searched one by one; look for one of its lines")
    return searching.python_pattern(query) if is_regex else re.escape(query.strip("\n") or query)


def _check_pattern(query: Query) -> None:
    try:
        searching.compile_pattern(query)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(
            f"query is no regular expression ({error}); escape special characters, or use literal"
        ) from error


class _StoppedError(Exception):
    """The search did not come to its end."""


def _check_going_on(running: Running, end: float) -> None:
    if running.interrupted.is_set():
        raise _StoppedError("the user interrupted it")
    if time.monotonic() > end:
        raise _StoppedError("it took too long; search fewer files (path, glob), or with a simpler pattern")


def _here(query: Query, running: Running, end: float) -> Generator[_Found]:
    return searching.search(query, lambda: _check_going_on(running, end))


def _in_a_process(query: Query, running: Running, end: float) -> Generator[_Found]:
    command = [sys.executable, "-I", "-S", str(Path(searching.__file__))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(asdict(query)).encode())
        for line in _lines(process, running, end):
            kind, values = json.loads(line)
            yield Ending(**values) if kind == "Ending" else FileMatches(**values)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _lines(process: "subprocess.Popen[bytes]", running: Running, end: float) -> Iterator[bytes]:
    assert process.stdout is not None
    rest = b""
    while True:
        _check_going_on(running, end)
        if not select.select([process.stdout], [], [], _LOOK_S)[0]:
            continue
        piece = process.stdout.read1(1 << 16)  # type: ignore[attr-defined]  # a BufferedReader
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole


@dataclass(slots=True)
class _Report:
    path: str
    query: str
    max_results: int
    matches: int = 0
    files: int = 0
    rows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _chars: int = 0

    def add(self, found: Generator[_Found]) -> None:
        """All that comes, to the end or a limit."""
        try:
            with contextlib.closing(found):
                for one in found:
                    if isinstance(one, Ending):
                        self._end(one)
                        return
                    self._add_file(one)
                    if self._chars > MAX_ANSWER_CHARS:
                        self.notes.append("more text than can be shown; narrow the search")
                        return
            self.notes.append("the search broke off")
        except _StoppedError as error:
            self.notes.append(f"not everything was searched: {error}")

    def text(self) -> str:
        """What the model is told."""
        head = f'"{shown(self.query)}" in {shown(self.path)}'
        if not self.matches:
            return "\n".join([f"No matches for {head}", *self._note_rows()])
        matches = "1 match" if self.matches == 1 else f"{self.matches} matches"
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return "\n".join([f"{matches} for {head} ({files})", *self.rows, *self._note_rows()])

    def _note_rows(self) -> list[str]:
        return [f"[{note}]" for note in self.notes]

    def _add_file(self, file: FileMatches) -> None:
        self.matches += file.matches
        self.files += 1
        rows = [shown(self._name(file.path))]
        previous = 0
        for line, content, is_match in file.rows:
            if previous and line > previous + 1 and len(file.rows) > file.matches:
                rows.append("  --")
            rows.append(f"  {line}{'' if is_match else '-'} {content}")
            previous = line
        self._chars += sum(map(len, rows))
        self.rows += rows

    def _name(self, path: str) -> str:
        if not path:
            return self.path
        return path if self.path.strip("/") in ("", ".") and self.path != "/" else f"{self.path.rstrip('/')}/{path}"

    def _end(self, ending: Ending) -> None:
        if ending.has_more:
            self.notes.append(f"there are more matches; these are the first {self.max_results}")
        for count, what in (
            (ending.too_large, f"files above {searching.MAX_FILE_BYTES >> 20} MiB were left out"),
            (ending.unreadable, "files or folders could not be read"),
            (ending.too_deep, f"folders deeper than {searching.MAX_DEPTH} levels were left out"),
        ):
            if count:
                self.notes.append(f"{count} {what}")
