"""write: a file, whole."""

from collections.abc import Mapping
from dataclasses import dataclass

from whitedwarf.agent.guarded_files import Version
from whitedwarf.agent.text_lines import decode, encode, has_crlf_ends, to_crlf
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.definition import define, text
from whitedwarf.agent.tools.unified_diff import unified_diff
from whitedwarf.agent.workspace import File, Workspace, shown


class Write(Tool):
    """Creates a file, or replaces all that it holds."""

    definition = define(
        "write",
        "Create a file, or overwrite it completely. Folders on the way are made.",
        ["path", "content"],
        path=text("File to write."),
        content=text("Everything the file is to hold."),
    )
    effect = Effect.WRITE

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        return f"Writing {shown(str(arguments.values.get('path', '')))}"

    def detail(self, arguments: Arguments) -> str:
        """The diff it would make."""
        try:
            return self._change(arguments).diff
        except ToolError as error:
            return str(error)

    def risk(self, arguments: Arguments) -> str:
        """As Tool.risk."""
        return self._workspace.risk_of_writing(str(arguments.values.get("path", "")))

    def preflight(self, closed: str, arguments: Mapping[str, str]) -> None:
        """A path that must not be written is refused before the content is."""
        if closed == "path":
            self._before(arguments["path"])

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        change = self._change(arguments)
        self._workspace.write(change.path, change.wanted, change.version)
        return Outcome(f"wrote {len(change.wanted)} bytes to {shown(change.path)} ({change.note})", diff=change.diff)

    def _before(self, path: str) -> File | None:
        self._workspace.locate_writable(path)
        return self._workspace.read_if_there(path)

    def _change(self, arguments: Arguments) -> "_Change":
        path = arguments.text("path")
        wanted = encode(arguments.text("content"), "content")
        before = self._before(path)
        if before is None:
            return _Change(path, wanted, None, "created", unified_diff(None, decode(wanted), shown(path)))
        note = "overwritten"
        if has_crlf_ends(before.data) and b"\r" not in wanted:
            wanted, note = to_crlf(wanted), "overwritten; its lines end with CR LF as before"
        diff = unified_diff(decode(before.data), decode(wanted), shown(path))
        return _Change(path, wanted, before.version, note if diff else "it held the same already", diff)


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    wanted: bytes
    version: Version | None
    note: str
    diff: str
