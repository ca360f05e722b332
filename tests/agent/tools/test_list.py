"""list: one folder, and what it says of odd entries."""

import errno
import os

import pytest

from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools import list as list_module
from whitedwarf.agent.tools.list import List
from whitedwarf.agent.workspace import Workspace


def listed(folder, **values):
    return List(Workspace(folder)).run(Arguments(values), Running()).text


def test_entries_come_with_type_size_and_name(tmp_path):
    (tmp_path / "b.txt").write_text("12345")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "src").mkdir()
    rows = listed(tmp_path).split("\n")
    assert rows[:3] == [".: 5 entries", "- 0 .hidden", "- 5 b.txt"]
    assert rows[3].startswith("l ")
    assert rows[4] == "? 0 pipe"
    assert rows[5].startswith("d ")
    assert rows[5].endswith(" src/")


def test_an_empty_folder_and_one_entry(tmp_path):
    (tmp_path / "a").mkdir()
    assert listed(tmp_path, path="a") == "a: 0 entries"
    assert listed(tmp_path).startswith(".: 1 entry\nd ")


def test_300_entries_are_shown_and_the_rest_is_counted(tmp_path):
    for number in range(301):
        (tmp_path / f"{number:03}").touch()
    rows = listed(tmp_path).split("\n")
    assert rows[0].startswith(".: 301 entries, the first 300 are shown")
    assert (len(rows), rows[-1]) == (301, "- 0 299")


def test_names_that_would_break_the_line_or_the_terminal_are_escaped(tmp_path):
    (tmp_path / "a\nb\x1b[2J").touch()
    (tmp_path / os.fsdecode(b"c\xff")).touch()
    assert listed(tmp_path).split("\n")[1:] == ["- 0 a\\nb\\x1b[2J", "- 0 c\\udcff"]


@pytest.mark.parametrize(
    ("path", "words"), [("missing", "no such file or folder"), ("file", "is no folder; use read"), ("", "empty")]
)
def test_what_is_no_folder_is_refused(tmp_path, path, words):
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=words):
        listed(tmp_path, path=path)


def test_a_folder_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def locked(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(list_module.os, "scandir", locked)
    with pytest.raises(ToolError, match="permission denied"):
        listed(tmp_path)


def test_a_strict_workspace_lists_nothing_outside(tmp_path):
    with pytest.raises(ToolError, match="outside of the workspace"):
        List(Workspace(tmp_path, is_strict=True)).run(Arguments({"path": ".."}), Running())


def test_the_summary_never_raises(tmp_path):
    assert List(Workspace(tmp_path)).summary(Arguments({})) == "Listing ."
    assert List(Workspace(tmp_path)).summary(Arguments({"path": {"a": 1}})).startswith("Listing")
