"""A process of ours: how it begins, how it ends, and that nothing is left of it."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest

from supervisor.children import DEAF, end, is_alive, python, until
from whitedwarf.supervisor.child import Manners, spawn
from whitedwarf.supervisor.child_log import ChildLog

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="signals and groups")]

HASTY = Manners(grace_s=1.0, second_term_s=0.3)
GRANDCHILD = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("grandchild", os.getpid(), flush=True)
time.sleep(60)
"""


async def heard(child, word: str) -> str:
    async for line in child.log.follow():
        if line.startswith(word):
            return line
    raise AssertionError("the log ended")


async def test_what_it_says_is_in_the_log_and_its_exit_code_comes(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", tmp_path)
        assert await child.wait_exit() == 7
    assert set(child.log.tail()) == {"out", "err"}
    assert set((tmp_path / "child.log").read_text().split()) == {"out", "err"}
    assert child.has_exited


async def test_it_reads_nothing_and_has_no_file_of_ours(tmp_path: Path) -> None:
    code = "import os, sys; print(repr(sys.stdin.read()), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    if sys.platform != "linux":
        pytest.skip("/proc")
    with (tmp_path / "open").open("w") as file, anyio.fail_after(30):
        os.set_inheritable(file.fileno(), True)
        child = await python(code, tmp_path)
        await child.wait_exit()
    assert child.log.tail() == ("'' [0, 1, 2]",)


async def test_its_environment_is_ours_and_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_US", "a")
    monkeypatch.setenv("BOTH", "ours")
    code = "import os; print(os.environ['FROM_US'], os.environ['BOTH'])"
    with anyio.fail_after(30):
        child = await python(code, tmp_path, environment={"BOTH": "given"})
        await child.wait_exit()
    assert child.log.tail() == ("a given",)


async def test_a_program_that_is_not_there_is_an_error_and_no_process(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await spawn([str(tmp_path / "no such program")], log=ChildLog(tmp_path / "log", 100))


async def test_it_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python("import time; time.sleep(60)", tmp_path)
        began_s = time.monotonic()
        await child.stop()
    assert time.monotonic() - began_s < 15  # at the first SIGTERM: the next signal would be 20 s later
    assert child.exit_code == -signal.SIGTERM
    assert not psutil.pid_exists(child.pid)


async def test_one_that_needs_two_signals_gets_two(tmp_path: Path) -> None:
    code = """
import signal, sys, time
asked = []
def hear(*_):
    asked.append(1)
    if len(asked) == 2: sys.exit(3)
signal.signal(signal.SIGTERM, hear)
print("ready", flush=True)
while True: time.sleep(60)
"""
    with anyio.fail_after(30):
        child = await python(code, tmp_path, manners=Manners(grace_s=30, second_term_s=0.2))
        await heard(child, "ready")
        await child.stop()
    assert child.exit_code == 3


async def test_one_that_hears_nothing_is_killed_after_its_grace(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python(DEAF, tmp_path, manners=HASTY)
        await heard(child, "deaf")
        began_s = time.monotonic()
        await child.stop()
    assert time.monotonic() - began_s >= HASTY.grace_s
    assert child.exit_code == -signal.SIGKILL


async def test_a_second_signal_comes_only_where_it_helps(tmp_path: Path) -> None:
    code = DEAF.replace("signal.SIG_IGN", "lambda *_: print('term', flush=True)").replace(
        "time.sleep(60)", "[time.sleep(0.1) for _ in range(600)]"
    )
    with anyio.fail_after(30):
        child = await python(code, tmp_path, manners=Manners(grace_s=0.6, second_term_s=None))
        await heard(child, "deaf")
        await child.stop()
    assert child.log.tail().count("term") == 1


async def test_stopping_twice_and_in_parallel_is_stopping_once(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python(DEAF, tmp_path, manners=HASTY)
        await heard(child, "deaf")
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(child.stop())
        await child.stop()
        assert await child.wait_exit() == -signal.SIGKILL


async def test_whoever_leaves_while_it_stops_does_not_keep_it_alive(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python(DEAF, tmp_path, manners=HASTY)
        await heard(child, "deaf")
        with anyio.move_on_after(0.1):
            await child.stop()
        assert not child.has_exited
        await child.wait_exit()


async def test_stopping_the_dead_returns(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python("", tmp_path)
        await child.wait_exit()
        await child.stop()
        child.kill()
    assert child.exit_code == 0


async def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python(GRANDCHILD, tmp_path, manners=Manners(grace_s=5, second_term_s=0.2))
        grandchild = int((await heard(child, "grandchild")).split()[1])
        await child.stop()
    assert not is_alive(grandchild)


async def test_what_a_child_that_died_has_left_behind_is_ended(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python(GRANDCHILD, tmp_path)
        grandchild = int((await heard(child, "grandchild")).split()[1])
        os.kill(child.pid, signal.SIGKILL)
        assert await child.wait_exit() == -signal.SIGKILL
    assert not is_alive(grandchild)


async def test_a_pipe_that_somebody_outside_holds_open_keeps_nobody_waiting(tmp_path: Path) -> None:
    away = """
import os, time
if os.fork() == 0:
    os.setsid()
    print("away", os.getpid(), flush=True)
    time.sleep(60)
time.sleep(0.3)
"""
    with anyio.fail_after(30):
        child = await python(away, tmp_path)
        outside = int((await heard(child, "away")).split()[1])
        try:
            await child.wait_exit()
        finally:
            end(outside)


async def test_it_hears_of_a_last_line_without_an_end(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        child = await python("import os; os.write(1, b'no newline')", tmp_path)
        await child.wait_exit()
    assert child.log.tail() == ("no newline",)


async def test_when_gone_is_called_once_nothing_is_left(tmp_path: Path) -> None:
    calls: list[int] = []
    with anyio.fail_after(30):
        child = await python("", tmp_path)
        child.when_gone(lambda: calls.append(1))
        await child.wait_exit()
        assert calls == [1]
        child.when_gone(lambda: calls.append(2))
    assert calls == [1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children of the dead")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_it_dies_with_us_however_we_die(tmp_path: Path, number: int) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from whitedwarf.supervisor.child import spawn
from whitedwarf.supervisor.child_log import ChildLog
async def main():
    child = await spawn([sys.executable, "-c", "import time; time.sleep(60)"], log=ChildLog(Path(sys.argv[1]), 100))
    print(child.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with anyio.fail_after(20):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, str(tmp_path / "log"), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        child = int(await process.stdout.readline())
        assert is_alive(child)
        process.send_signal(number)
        await process.wait()
        await until(lambda: not is_alive(child))


async def test_twenty_lives_leave_no_file_thread_or_process(tmp_path: Path) -> None:
    us = psutil.Process()

    async def live() -> None:
        child = await python("import time; time.sleep(60)", tmp_path)
        await child.stop()

    with anyio.fail_after(60):
        await live()
        before = us.num_fds()
        for _ in range(20):
            await live()
        await until(lambda: us.num_fds() == before)
        await until(lambda: not us.children())
