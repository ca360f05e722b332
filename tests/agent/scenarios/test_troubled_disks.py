"""Disks and people that get in the way of the file tools."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent.scenarios.play import Play
from agent.scenarios.replies import call, calls, says

DONE = says("Done.")
READ = call("read", path="a.txt")
WRITE = call("write", path="a.txt", content="new\n")
EDIT = call("edit", path="a.txt", old="old", new="new")


@contextmanager
def when_opened(ending: str, act: Callable[[], object]) -> Iterator[list[str]]:
    """Does something whenever a file whose name ends like this is opened -> the names."""
    really, opened = os.open, list[str]()

    def opening(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith(ending):
            opened.append(str(path))
            act()
        return really(path, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opening)
        yield opened


def failing(number: int) -> Callable[[], object]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


READ_TROUBLES = [
    (errno.EACCES, "permission denied"),
    (errno.EIO, "Input/output error"),
    (errno.ENOENT, "there is no such file"),
]
WRITE_TROUBLES = [
    (errno.EACCES, "permission denied"),
    (errno.ENOSPC, "the disk is full; free some space first"),
    (errno.EROFS, "the disk is read-only"),
    (errno.EDQUOT, "the disk quota is used up"),
]


@pytest.mark.parametrize(("number", "words"), READ_TROUBLES)
def test_a_file_that_cannot_be_read_is_told(play_v4: Play, number: int, words: str) -> None:
    with play_v4(calls(READ), DONE, files={"a.txt": "old\n"}) as scene:
        with when_opened("a.txt", failing(number)) as opened:
            scene.user("Read it.")
        assert scene.results[0].startswith(f"Tool error: a.txt: {words}")
        assert opened


@pytest.mark.parametrize(("number", "words"), WRITE_TROUBLES)
@pytest.mark.parametrize("invocation", [WRITE, EDIT], ids=["write", "edit"])
def test_a_disk_that_cannot_be_written_is_told_and_the_file_stays(
    play_v4: Play, invocation: Any, number: int, words: str
) -> None:
    with play_v4(calls(invocation), DONE, files={"a.txt": "old\n"}) as scene:
        with when_opened(".partial", failing(number)) as opened:
            scene.user("Change it.")
        assert scene.results == [f"Tool error: a.txt: {words}; nothing was written"]
        assert opened
        assert scene.file("a.txt") == "old\n"
        assert [path.name for path in scene.root.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("invocation", [WRITE, EDIT], ids=["write", "edit"])
def test_a_file_that_somebody_changes_in_the_last_moment_is_left_alone(play_v4: Play, invocation: Any) -> None:
    with play_v4(calls(invocation), DONE, files={"a.txt": "old\n"}) as scene:
        with when_opened(".partial", lambda: scene.path("a.txt").write_text("somebody else's\n")):
            scene.user("Change it.")
        assert "somebody else changed it meanwhile; read it again" in scene.results[0]
        assert scene.file("a.txt") == "somebody else's\n"


def test_a_folder_that_cannot_be_listed_is_told(play_v4: Play) -> None:
    with play_v4(
        calls(call("list", path="sub"), call("search", query="x", path="sub")), DONE, files={"sub/b": "x"}
    ) as scene:
        really = os.scandir

        def scanning(path: Any = ".") -> Any:
            if str(path).endswith("sub"):
                failing(errno.EACCES)()
            return really(path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "scandir", scanning)
            scene.user("Look.")
        assert scene.results[0] == "Tool error: sub: permission denied"
        assert "[1 files or folders could not be read]" in scene.results[1]


def test_a_workspace_that_is_gone_is_told_by_every_tool(play_v4: Play) -> None:
    invocations = [READ, call("list"), call("search", query="x"), call("bash", command="ls")]
    with play_v4(calls(*invocations), DONE) as scene:
        scene.root.rmdir()
        scene.user("Look.")
        assert all(result.startswith("Tool error: ") for result in scene.results), scene.results
        scene.root.mkdir()
