"""list: one folder."""

import os
import stat
from collections.abc import Iterator

from whitedwarf.agent.tool import Arguments, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.definition import define, text
from whitedwarf.agent.workspace import Workspace, reason, shown

MAX_ENTRIES = 300
_LETTERS = {stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFREG: "-"}


class List(Tool):
    """What is in a folder: type, size in bytes, name."""

    definition = define(
        "list",
        "List one folder: type (d folder, l symlink, - file, ? other), size in bytes, name.",
        [],
        path=text("Folder to list. Default: the workspace."),
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        return f"Listing {shown(str(arguments.values.get('path', '.')))}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        path = arguments.text("path", ".")
        try:
            with os.scandir(self._workspace.locate(path)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except NotADirectoryError as error:
            raise ToolError(f"{shown(path)}: is no folder; use read to see a file") from error
        except OSError as error:
            raise ToolError(reason(path, error)) from error
        return Outcome("\n".join([f"{shown(path)}: {_count(len(entries))}", *_rows(entries)]))


def _count(entries: int) -> str:
    if entries > MAX_ENTRIES:
        return f"{entries} entries, the first {MAX_ENTRIES} are shown; for others use bash with ls and a pattern"
    return "1 entry" if entries == 1 else f"{entries} entries"


def _rows(entries: list[os.DirEntry[str]]) -> Iterator[str]:
    for entry in entries[:MAX_ENTRIES]:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # gone meanwhile
            yield f"? ? {shown(entry.name)}"
            continue
        letter = _LETTERS.get(stat.S_IFMT(status.st_mode), "?")
        yield f"{letter} {status.st_size} {shown(entry.name)}{'/' if letter == 'd' else ''}"
