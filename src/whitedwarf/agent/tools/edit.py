"""edit: one place of a file, named by its text or by its two ends.

Promises: bytes that the edit does not name stay as they are, CR LF and bytes that are no UTF-8 included; a file that
somebody else changed between reading and writing is left alone. `preflight` says what is wrong with `old` before `new`
is written; `may_skip`, while `old` is written, whether `[upto]` may follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from whitedwarf.agent.guarded_files import Version
from whitedwarf.agent.text_lines import decode, encode, has_crlf_ends, has_mixed_ends, to_crlf, to_lf
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.anchors import MARKER, Span, find_span, is_good_head, line_of
from whitedwarf.agent.tools.definition import define, text
from whitedwarf.agent.tools.unified_diff import unified_diff
from whitedwarf.agent.workspace import File, Workspace, shown

LINES_BEFORE, LINES_AFTER = 5, 8
LONGEST_SHOWN = 36  # lines of an edit; of longer ones the first and the last half
MAX_LINE_CHARS = 400


@dataclass(frozen=True)
class Edited:
    """What an edit does to a text whose lines end with LF."""

    before: bytes
    span: Span
    new: bytes

    @cached_property
    def after(self) -> bytes:
        """The whole text, edited."""
        return self.before[: self.span.start] + self.new + self.before[self.span.end :]

    @property
    def old_lines(self) -> tuple[int, int]:
        """The first and last line, from 1, that lost something."""
        return line_of(self.before, self.span.start), line_of(self.before, self.span.end - 1)

    @property
    def new_lines(self) -> tuple[int, int]:
        """Where the new text is; the last is before the first where there is none."""
        first = self.old_lines[0]
        return first, line_of(self.after, self.span.start + len(self.new) - 1) if self.new else first - 1

    @property
    def shift(self) -> int:
        """By how many lines what follows has moved."""
        return self.new.count(b"\n") - self.before[self.span.start : self.span.end].count(b"\n")


class Edit(Tool):
    """Replaces one place of a file."""

    definition = define(
        "edit",
        "Replace one place of a file. old must occur exactly once. For a long place, old may be its first lines, then "
        "[upto] alone in a line, then its last lines: everything from the first to the last is replaced.",
        ["path", "old", "new"],
        path=text("File to edit; give it first."),
        old=text("The text to replace, exactly as it is in the file, or its two ends with [upto] between."),
        new=text("The text to put there; may be empty."),
    )
    effect = Effect.WRITE

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._seen: tuple[str, Version, bytes] | None = None

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        return f"Editing {shown(str(arguments.values.get('path', '')))}"

    def detail(self, arguments: Arguments) -> str:
        """The diff it would make."""
        try:
            path = arguments.text("path")
            return _diff(path, self._edit(self._file(path), arguments)[0])
        except ToolError as error:
            return str(error)

    def risk(self, arguments: Arguments) -> str:
        """As Tool.risk."""
        return self._workspace.risk_of_writing(str(arguments.values.get("path", "")))

    def preflight(self, closed: str, arguments: Mapping[str, str]) -> None:
        """Once path and old are there, whether old names one place; the path alone as soon as it is there."""
        if closed not in ("path", "old") or "path" not in arguments:
            return
        text = self._text(arguments["path"])
        if "old" in arguments:
            _find(text, arguments["old"], arguments["path"])

    def may_skip(self, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        """Whether `old`, as far as it has come, may go on with `[upto]`: whole lines, long enough, and only there."""
        if parameter != "old" or "path" not in arguments or not begun.endswith("\n"):
            return False
        try:
            return is_good_head(self._text(arguments["path"]), to_lf(encode(begun, "old")))
        except ToolError:
            return False

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        path = arguments.text("path")
        file = self._file(path)
        edited, wanted = self._edit(file, arguments)
        self._workspace.write(path, wanted, file.version)
        return Outcome(report(shown(path), edited), diff=_diff(path, edited))

    def _file(self, path: str) -> File:
        self._workspace.locate_writable(path)
        return self._workspace.read(path)

    def _edit(self, file: File, arguments: Arguments) -> tuple[Edited, bytes]:
        """The edit, and all bytes that the file is to hold."""
        new = encode(arguments.text("new"), "new")
        is_crlf = has_crlf_ends(file.data)
        before, new = (to_lf(file.data), to_lf(new)) if is_crlf else (file.data, new)
        edited = Edited(before, _find(before, arguments.text("old"), arguments.text("path")), new)
        if edited.span.is_anchored and MARKER in new:
            raise ToolError(
                "new has [upto], which would be written as it stands: everything from the head to the tail of old is "
                "replaced. Write out in new all that is to be there"
            )
        if edited.after == before:
            raise ToolError("new is what the file holds there already; nothing was changed")
        return edited, to_crlf(edited.after) if is_crlf else edited.after

    def _text(self, path: str) -> bytes:
        """The file with LF as line ends, read again only when it has changed."""
        version = self._workspace.version(path)
        if self._seen is None or self._seen[:2] != (path, version):
            file = self._file(path)
            text = to_lf(file.data) if has_crlf_ends(file.data) else file.data
            self._seen = (path, file.version, text)
        return self._seen[2]


def _find(data: bytes, old: str, path: str) -> Span:
    wanted = encode(old, "old")
    if not has_mixed_ends(data):
        wanted = to_lf(wanted)
    try:
        return find_span(data, wanted)
    except ToolError as error:
        hint = ""
        if has_mixed_ends(data):
            hint = " Some lines of this file end with CR LF and some with LF; old has to have the same."
        raise ToolError(f"{shown(path)}: {error}{hint}") from error


def _diff(path: str, edited: Edited) -> str:
    return unified_diff(decode(edited.before), decode(edited.after), shown(path))


def report(path: str, edited: Edited) -> str:
    """What the model is told: which lines were touched, whether others moved, and what is there now."""
    (old_first, old_last), (new_first, new_last) = edited.old_lines, edited.new_lines
    done = f"replaced {_span(old_first, old_last)}"
    if new_last < new_first:
        done = f"removed text in {_span(old_first, old_last)}"
    elif (new_first, new_last) != (old_first, old_last):
        done += f"; now {_span(new_first, new_last)}"
    moved = f"; lines after it moved by {edited.shift:+}" if edited.shift else ""
    return f"edited {path}: {done}{moved}\n{_around(edited)}"


def _span(first: int, last: int) -> str:
    return f"line {first}" if first >= last else f"lines {first}-{last}"


def _around(edited: Edited) -> str:
    pieces = decode(edited.after).split("\n")
    lines = pieces if pieces[-1] else pieces[:-1]
    first, last = edited.new_lines
    begin, end = max(1, first - LINES_BEFORE), min(len(lines), last + LINES_AFTER)
    if begin > end:
        return "the file is empty now"
    numbers = [*range(begin, end + 1)]
    left_out = last - first + 1 - LONGEST_SHOWN
    rows = [f"{number} {_clipped(lines[number - 1])}" for number in numbers]
    if left_out > 0:
        cut = first - begin + LONGEST_SHOWN // 2
        rows[cut : cut + left_out] = [f"... {left_out} lines left out ..."]
    return "\n".join([f"{_span(begin, end)} of {len(lines)} now:", *rows])


def _clipped(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "..."
