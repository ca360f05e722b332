"""Where paths lead, what may be written, and that no trick leads out."""

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent import guarded_files
from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.workspace import MAX_FILE_BYTES, Workspace, shown


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "theirs").write_text("theirs")
    return folder


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_paths_are_relative_to_the_root_absolute_or_at_home(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root / "home"))
    workspace = Workspace(root)
    assert workspace.locate("a/../b") == root / "b"
    assert workspace.locate("/etc/hostname").is_absolute()
    assert workspace.locate("~/x") == root / "home/x"


def test_a_file_is_made_with_its_folders(root):
    Workspace(root).write("a/b/c.txt", b"new")
    assert (root / "a/b/c.txt").read_bytes() == b"new"
    assert files_in(root) == ["a", "b", "c.txt"]


def test_a_file_that_is_replaced_keeps_its_permissions_but_not_setuid(root):
    path = root / "run.sh"
    path.write_text("old")
    path.chmod(0o4750)
    Workspace(root).write("run.sh", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert path.read_bytes() == b"new"


def test_what_others_may_not_read_they_do_not_see_while_it_is_replaced(root, monkeypatch):
    path = root / ".env"
    path.write_text("old")
    path.chmod(0o600)
    seen = []
    fchmod = os.fchmod

    def look(descriptor, mode):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", look)
    Workspace(root).write(".env", b"new")
    assert seen == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_symlink_within_the_root_stays_one_and_its_target_is_written(root):
    (root / "target").write_text("old")
    (root / "link").symlink_to("target")
    Workspace(root).write("link", b"new")
    assert (root / "link").is_symlink()
    assert (root / "target").read_bytes() == b"new"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/theirs",
        "a/../../outside/new",
        "link",
        "folder/theirs",
        "folder/new/deep",
        "dangling",
        "/etc/passwd",
        "~/x",
        "chain/theirs",
        "/proc/self/cwd/x",
    ],
)
def test_nothing_is_written_outside(root, outside, path, monkeypatch):
    monkeypatch.setenv("HOME", str(outside))
    monkeypatch.chdir(outside)
    (root / "link").symlink_to(outside / "theirs")
    (root / "folder").symlink_to(outside)
    (root / "chain").symlink_to("folder")
    (root / "dangling").symlink_to(outside / "new")
    with pytest.raises(ToolError, match="files are only written below"):
        Workspace(root).write(path, b"mine")
    assert files_in(outside) == ["theirs"]
    assert (outside / "theirs").read_text() == "theirs"


def test_a_folder_with_the_roots_name_as_its_beginning_is_outside(root):
    with pytest.raises(ToolError, match="only written below"):
        Workspace(root).write(f"{root}-not/x", b"")


def test_allowed_folders_may_be_written_too(root, outside):
    workspace = Workspace(root, [outside])
    workspace.write(str(outside / "theirs"), b"ours")
    assert (outside / "theirs").read_bytes() == b"ours"
    with pytest.raises(ToolError, match=f"below {root} and {outside}"):
        workspace.write("/etc/passwd", b"")


def test_reading_outside_is_free_unless_the_workspace_is_strict(root, outside):
    assert Workspace(root).read("../outside/theirs").data == b"theirs"
    with pytest.raises(ToolError, match=r"is outside of the workspace .*, which is all that may be read"):
        Workspace(root, is_strict=True).read("../outside/theirs")
    (root / "link").symlink_to(outside / "theirs")
    with pytest.raises(ToolError, match="outside"):
        Workspace(root, is_strict=True).read("link")


def test_a_folder_swapped_for_a_symlink_at_the_wrong_moment_leads_nowhere(root, outside, monkeypatch):
    (root / "folder").mkdir()
    workspace = Workspace(root, is_strict=True)
    follow = workspace._follow

    def swap_after(path):
        real = follow(path)
        if not (root / "folder").is_symlink():
            (root / "folder").rmdir()
            (root / "folder").symlink_to(outside)
        return real

    monkeypatch.setattr(workspace, "_follow", swap_after)
    with pytest.raises(ToolError, match=r"symlink|not a folder"):
        workspace.write("folder/new", b"mine")
    assert files_in(outside) == ["theirs"]
    (root / "folder").unlink()
    (root / "folder").mkdir()
    with pytest.raises(ToolError, match=r"symlink|not a folder"):
        workspace.read("folder/theirs")


def test_hundreds_of_swaps_lead_nowhere(root, outside):
    workspace = Workspace(root)
    (root / "real").mkdir()
    (root / "folder").symlink_to("real")
    is_over = threading.Event()

    def swap():
        while not is_over.is_set():
            for target in ("real", str(outside)):
                (root / "next").symlink_to(target)
                (root / "next").replace(root / "folder")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(300):
            try:
                workspace.write(f"folder/{number}", b"")
            except ToolError:
                continue
    finally:
        is_over.set()
        swapper.join()
    assert files_in(outside) == ["theirs"]


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_beside_it(root, monkeypatch):
    (root / "a").write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(guarded_files.os, "fsync", full)
    with pytest.raises(ToolError, match="a: the disk is full; free some space first; nothing was written"):
        Workspace(root).write("a", b"new")
    assert (root / "a").read_text() == "old"
    assert files_in(root) == ["a"]


def test_a_file_made_read_only_is_left_alone(root):
    (root / "a").write_text("old")
    (root / "a").chmod(0o444)
    with pytest.raises(ToolError, match=r"is read-only; .* chmod u\+w"):
        Workspace(root).write("a", b"new")
    assert (root / "a").read_text() == "old"


def test_a_file_that_somebody_changed_meanwhile_is_left_alone(root):
    workspace = Workspace(root)
    (root / "a").write_text("old")
    version = workspace.read("a").version
    (root / "a").write_text("theirs")
    with pytest.raises(ToolError, match="somebody else changed it meanwhile; read it again"):
        workspace.write("a", b"mine", version)
    (root / "a").unlink()
    with pytest.raises(ToolError, match="changed it meanwhile"):
        workspace.write("a", b"mine", version)
    assert files_in(root) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "path is empty"),
        ("  ", "path is empty"),
        ("a\0b", r"a\\x00b: a path cannot hold a NUL"),
        ("\ud800", r"\\ud800: is no path"),
        (".", "is a folder"),
        ("folder", "is a folder, not a regular file"),
        ("pipe", "is a pipe, not a regular file"),
        ("file/x", "a part of the path is a file"),
        ("x" * 300, "name is too long"),
    ],
)
def test_what_is_no_file_is_not_written(root, path, words):
    (root / "folder").mkdir()
    (root / "file").write_text("")
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolError, match=words):
        Workspace(root).write(path, b"")


def test_too_much_is_not_written(root):
    with pytest.raises(ToolError, match=f"{MAX_FILE_BYTES + 1} bytes are too many"):
        Workspace(root).write("a", bytes(MAX_FILE_BYTES + 1))
    Workspace(root).write("a", bytes(MAX_FILE_BYTES))
    assert len(Workspace(root).read("a").data) == MAX_FILE_BYTES


def test_a_folder_that_may_not_be_entered_is_named_with_the_reason(root, monkeypatch):
    real_open = os.open

    def locked(path, flags, mode=0o777, *, dir_fd=None):
        if path == "locked":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    (root / "locked").mkdir()
    monkeypatch.setattr(guarded_files.os, "open", locked)
    for act in (lambda: Workspace(root).read("locked/a"), lambda: Workspace(root).write("locked/a", b"")):
        with pytest.raises(ToolError, match="locked/a: permission denied"):
            act()


def test_a_missing_file_is_none_where_that_is_asked(root):
    assert Workspace(root).read_if_there("a/b") is None
    with pytest.raises(ToolError, match="is a folder"):
        Workspace(root).read_if_there(".")


def test_gits_own_files_are_a_risk(root):
    workspace = Workspace(root)
    assert "git's own files" in workspace.risk_of_writing("a/../.git/hooks/pre-commit")
    assert "whitedwarf's own files" in workspace.risk_of_writing(".whitedwarf/mcp.json")  # at home in the home
    assert "git's own files" in workspace.risk_of_writing(".GIT/config")  # the same on disks that know no case
    assert workspace.risk_of_writing(".gitignore") == ""
    assert workspace.risk_of_writing("/etc/passwd") == ""
    assert workspace.risk_of_writing("\0") == ""


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ToolError, match="is no folder"):
        Workspace(tmp_path / "missing")


@given(st.text())
def test_a_shown_path_is_one_printable_line(path):
    assert shown(path).isprintable()


@given(st.text(max_size=40))
def test_any_text_is_located_or_refused(path):
    workspace = Workspace(Path("/"))
    with contextlib.suppress(ToolError):
        assert workspace.locate(path).is_absolute()
