"""What a child says: kept, bounded, readable, and never a reason to stop."""

import asyncio
import errno
import os
import stat
import time
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.supervisor.child_log import ChildLog

pytestmark = pytest.mark.anyio


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_file_has_the_bytes_that_came_and_is_private(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "deep" / "a.log", 100)
    log.write(b"one\n\xfftwo")
    log.end()
    assert (tmp_path / "deep" / "a.log").read_bytes() == b"one\n\xfftwo"
    assert stat.S_IMODE((tmp_path / "deep" / "a.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
    assert log.tail() == ("one", "\ufffdtwo")


def test_the_last_lines_are_there_also_one_that_is_not_finished() -> None:
    log = ChildLog(Path("/nowhere/x"), 100)
    log.write(b"a\nb\r\n\nc\rhalf")
    assert log.tail(3) == ("b", "c", "half")


def test_only_lines_of_this_start_are_its_tail(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "log", 10_000)
    log.write(b"old\n")
    log.begin("a start")
    assert log.tail() == ()
    log.write(b"new\n")
    assert log.tail() == ("new",)
    assert "a start\nnew\n" in (tmp_path / "log").read_text()


def test_what_steers_terminals_is_left_out() -> None:
    log = ChildLog(Path("/nowhere/x"), 100)
    log.write(b"\x1b[31mred\x1b[0m \x07bell\x00\tend \x1b]0;title\n")
    assert log.tail() == ("red bell\tend 0;title",)


def test_a_line_without_end_does_not_grow_for_ever() -> None:
    log = ChildLog(Path("/nowhere/x"), 100)
    for _ in range(100):
        log.write(b"x" * 1000)
    assert sum(map(len, log.tail(500))) <= 100_000
    assert max(map(len, log.tail(500))) <= 4096


@given(st.lists(st.binary(max_size=30)))
def test_lines_do_not_depend_on_how_they_were_cut(pieces: list[bytes]) -> None:
    """A carriage return may be half of a line's end; the empty line it then leaves is not shown."""
    in_pieces, at_once = ChildLog(Path("/nowhere/x"), 1), ChildLog(Path("/nowhere/x"), 1)
    for piece in pieces:
        in_pieces.write(piece)
    at_once.write(b"".join(pieces))
    assert in_pieces.tail(500) == at_once.tail(500)
    assert in_pieces.total_bytes == sum(map(len, pieces))


def test_a_full_file_is_moved_aside_and_only_one_is_kept(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "log", 100)
    for index in range(50):
        log.write(b"%030d\n" % index)
    log.end()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(files) == {"log", "log.1"}
    assert all(len(data) <= 100 for data in files.values())
    assert (files["log.1"] + files["log"]).splitlines()[-1] == b"%030d" % 49
    assert [int(line) for line in (files["log.1"] + files["log"]).splitlines()] == list(range(45, 50))


def test_a_next_life_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = ChildLog(tmp_path / "log", 100)
        log.write(text)
        log.end()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


def test_a_disk_that_is_full_is_told_and_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, real, full = Time(), os.write, [True]

    def write(descriptor: int, data: bytes) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    log = ChildLog(tmp_path / "log", 1000, clock)
    log.write(b"lost\n")
    assert log.trouble is not None
    assert "No space left on device" in log.trouble
    full[0] = False
    log.write(b"lost too\n")
    clock.now_s = 11.0
    log.write(b"kept\n")
    log.end()
    assert log.trouble is None
    assert (tmp_path / "log").read_text() == "kept\n"
    assert log.tail() == ("lost", "lost too", "kept")


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = ChildLog(tmp_path / "file" / "log", 1000)
    log.begin("x")
    log.write(b"said\n")
    assert log.trouble is not None
    assert log.tail() == ("said",)


async def test_whoever_follows_hears_what_was_and_what_comes() -> None:
    log = ChildLog(Path("/nowhere/x"), 100)
    log.write(b"before\n")
    with anyio.fail_after(30):
        async with aclosing(log.follow()) as lines:
            assert await anext(lines) == "before"
            waiting = asyncio.ensure_future(anext(lines))
            await asyncio.sleep(0)
            log.write(b"af")
            log.write(b"ter\nand more\n")
            assert await waiting == "after"
            assert await anext(lines) == "and more"
        async with aclosing(log.follow(2)) as lines:
            assert [await anext(lines), await anext(lines)] == ["after", "and more"]
    assert log._listeners == set()


async def test_a_follower_who_does_not_read_costs_no_more_than_a_bound() -> None:
    log = ChildLog(Path("/nowhere/x"), 100)
    with anyio.fail_after(30):
        async with aclosing(log.follow()) as lines:
            log.write(b"first\n")
            assert await anext(lines) == "first"
            for index in range(5000):
                log.write(b"%d\n" % index)
            assert await anext(lines) == "4000"


@pytest.mark.parametrize("data", [b"\n", b"ab\n", b"\r", b"\x00\xff\n", b"\x1b[0;"])
def test_a_flood_of_lines_holds_up_nobody_for_long(tmp_path: Path, data: bytes) -> None:
    log = ChildLog(tmp_path / "a.log", 1 << 20)
    flood = data * ((256 << 10) // len(data))
    began_s = time.process_time()
    for _ in range(8):
        log.write(flood)
    assert (time.process_time() - began_s) / 8 < 0.25  # 0.04 on an idle machine
    log.write(b"the end\n")
    assert log.tail(1) == ("the end",)


def test_lines_of_a_flood_are_all_counted(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "a.log", 1 << 20)
    log.write(b"before\n")
    log.begin("again")
    log.write(b"".join(b"%d\n" % number for number in range(5000)))
    assert log.tail(2) == ("4998", "4999")
    log.begin("and again")
    assert log.tail() == ()


def test_a_log_that_is_a_pipe_which_nobody_reads_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    log = ChildLog(tmp_path / "a.log", 100)
    log.write(b"one\n")
    assert log.trouble is not None
    assert "cannot write the log" in log.trouble
    assert log.tail() == ("one",)
