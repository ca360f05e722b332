"""What an earlier supervisor left running is ended at the next start, and nobody else is."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from supervisor.children import DEAF, end, is_alive
from whitedwarf.supervisor.orphans import MARK, Record, Records, stop_orphans

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and groups")

SLEEPS = "print('up', flush=True); import time; time.sleep(60)"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def orphan(started: list[subprocess.Popen[bytes]], code: str = SLEEPS, *more: str) -> Record:
    """A running process, with the record that a supervisor which is gone has left of it."""
    argv = [sys.executable, "-c", code, *more]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    record = Record.of("m", process.pid, 9080, argv, "mark")
    return replace(record, supervisor_began="another life")


def test_a_record_is_private_and_comes_back_whole(tmp_path: Path) -> None:
    record = Record.of("a/b", os.getpid(), 9080, ["x", "ä\udcff"], "mark")
    records = Records(tmp_path)
    records.add(record)
    place = tmp_path / "children" / f"{os.getpid()}.json"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert records.found() == ([record], [])
    records.remove(record.pid)
    assert records.found() == ([], [])
    assert list((tmp_path / "children").iterdir()) == []


def test_nothing_is_done_where_nothing_was_left(tmp_path: Path) -> None:
    assert stop_orphans(tmp_path / "never made") == []


def test_a_child_that_outlived_its_supervisor_is_stopped(tmp_path: Path, started: list) -> None:
    record = orphan(started)
    Records(tmp_path).add(record)
    told = stop_orphans(tmp_path)
    assert not is_alive(record.pid)
    assert len(told) == 1
    assert f"process {record.pid}, port 9080" in told[0]
    assert Records(tmp_path).found() == ([], [])


def test_one_that_hears_nothing_is_killed(tmp_path: Path, started: list) -> None:
    record = orphan(started, DEAF)
    Records(tmp_path).add(record)
    stop_orphans(tmp_path, kill_s=0.2)
    assert not is_alive(record.pid)


def test_what_it_started_is_stopped_with_it(tmp_path: Path, started: list) -> None:
    code = "import os, time; pid = os.fork(); pid and print(pid, flush=True); time.sleep(60)"
    argv = [sys.executable, "-c", code]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    Records(tmp_path).add(replace(Record.of("m", process.pid, 9080, argv, "mark"), supervisor_began="another life"))
    stop_orphans(tmp_path)
    deadline_s = time.monotonic() + 30
    while is_alive(grandchild) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not is_alive(grandchild)


@pytest.mark.parametrize("mark", ["mark", "another's"])
def test_a_server_that_outlived_its_wrapper_is_known_by_its_mark(tmp_path: Path, started: list, mark: str) -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", code]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, MARK: mark},
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stdin is not None
    server = int(process.stdout.readline())
    record = replace(Record.of("m", process.pid, 9080, argv, "mark"), supervisor_began="another life")
    Records(tmp_path).add(record)
    process.stdin.close()
    process.wait()
    try:
        told = stop_orphans(tmp_path)
        assert is_alive(server) is (mark != "mark")
        assert len(told) == (mark == "mark")
    finally:
        end(server)


@pytest.mark.parametrize(
    "change",
    [{"began": "0:1"}, {"argv": ("/usr/bin/llama-server", "-m", "x.gguf"), "port": 9999}],
    ids=["another moment", "other words"],
)
def test_a_number_that_somebody_else_has_now_is_left_alone(tmp_path: Path, started: list, change: dict) -> None:
    record = replace(orphan(started), **change)
    Records(tmp_path).add(record)
    assert stop_orphans(tmp_path) == []
    assert is_alive(record.pid)
    assert Records(tmp_path).found() == ([], [])


def test_the_child_of_a_supervisor_that_lives_is_no_orphan(tmp_path: Path, started: list) -> None:
    record = orphan(started)
    living = replace(record, supervisor_began=Record.of("us", os.getpid(), 1, [], "").began)
    Records(tmp_path).add(living)
    assert stop_orphans(tmp_path) == []
    assert is_alive(record.pid)
    assert Records(tmp_path).found() == ([living], [])


def test_a_script_and_a_wrapper_that_became_something_else_are_recognised(tmp_path: Path, started: list) -> None:
    script = tmp_path / "run me.py"
    script.write_text(f"#!{sys.executable}\n{SLEEPS}\n")
    script.chmod(0o755)
    wrapper = [sys.executable, "-c", f"import os; os.execv({sys.executable!r}, ['x', '-c', {SLEEPS!r}, '9080'])"]
    for argv in ([str(script), "--port", "9080"], wrapper):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        record = replace(Record.of("m", process.pid, 9080, argv, "mark"), supervisor_began="another life")
        Records(tmp_path).add(record)
        assert len(stop_orphans(tmp_path)) == 1
        assert not is_alive(process.pid)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"pid": 1}', '"\udcff"', "{}", "[" * 100_000],
    ids=["empty", "half", "list", "null", "part", "bytes", "nothing", "deep"],
)
def test_a_damaged_record_is_told_and_removed(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "children"
    folder.mkdir()
    (folder / "17.json").write_text(text, errors="surrogateescape")
    told = stop_orphans(tmp_path)
    assert len(told) == 1
    assert "17.json" in told[0]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("pid", [0, -1, True, "1", 1.5])
def test_a_record_that_names_no_process_is_damaged(tmp_path: Path, pid: object) -> None:
    record = asdict(Record.of("m", os.getpid(), 9080, ["x"], "mark"))
    (tmp_path / "children").mkdir()
    (tmp_path / "children" / "1.json").write_text(json.dumps({**record, "pid": pid}))
    assert len(stop_orphans(tmp_path)) == 1


def test_a_zombie_is_not_running(tmp_path: Path, started: list) -> None:
    record = orphan(started)
    Records(tmp_path).add(record)
    os.kill(record.pid, signal.SIGKILL)
    while psutil.Process(record.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert stop_orphans(tmp_path) == []


def a_pipe(place: Path, text: str) -> None:
    os.mkfifo(place)


def a_link(place: Path, text: str) -> None:
    (place.parent / "elsewhere").write_text(text)
    place.symlink_to("elsewhere")


def a_link_without_end(place: Path, text: str) -> None:
    place.symlink_to("/dev/zero")


def one_that_others_may_write(place: Path, text: str) -> None:
    place.write_text(text)
    place.chmod(0o622)


def a_long_one(place: Path, text: str) -> None:
    place.write_text(text + " " * (9 << 20))


@pytest.mark.parametrize("make", [a_pipe, a_link, a_link_without_end, one_that_others_may_write, a_long_one])
def test_a_record_that_is_not_our_own_file_ends_nobody(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], make: Callable[[Path, str], None]
) -> None:
    record = orphan(started)
    (tmp_path / "children").mkdir()
    place = tmp_path / "children" / f"{record.pid}.json"
    make(place, json.dumps(asdict(record)))
    told = stop_orphans(tmp_path, kill_s=0.1)
    assert len(told) == 1
    assert "cannot be read; removed" in told[0]
    assert is_alive(record.pid)
    assert not place.is_symlink()
    assert not place.exists()


def test_a_state_folder_that_cannot_be_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / ("n" * 300), tmp_path / "file" / "x"):
        assert stop_orphans(folder) == []


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(OSError, match="No space"):
        Records(tmp_path).add(Record.of("m", os.getpid(), 9080, ["x"], "mark"))
    assert list((tmp_path / "children").iterdir()) == []
