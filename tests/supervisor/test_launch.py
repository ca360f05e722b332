"""From a model of the config to a server that is up, with a stand-in for llama-server (spec/supervisor.md 7)."""

import asyncio
import json
import os
import pickle
import signal
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from supervisor.children import config_of, events, is_alive, stand_in, until
from whitedwarf.supervisor import launch, readiness
from whitedwarf.supervisor.config import Backend, ManagedModel
from whitedwarf.supervisor.failures import StartFailedError, UpstreamDownError
from whitedwarf.supervisor.launch import Launcher, RunningModel
from whitedwarf.supervisor.listeners import Owner, can_bind
from whitedwarf.supervisor.orphans import Records, stop_orphans
from whitedwarf.supervisor.upstream import Address, ask, begin

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="signals and groups")]


@asynccontextmanager
async def launched(
    folder: Path, model: ManagedModel, within_s: float = 30, **config: Any
) -> AsyncIterator[RunningModel]:
    with anyio.fail_after(within_s):
        launcher = Launcher(config_of(folder, model, **config))
        running = await launcher.launch(model, lambda text: None)
        try:
            yield running
        finally:
            await running.stop()
    assert not is_alive(running.pid)
    assert Records(folder / "state").found() == ([], [])


async def failed(folder: Path, model: ManagedModel, within_s: float = 30) -> StartFailedError:
    """The start fails, and nothing is left of it."""
    with anyio.fail_after(within_s):
        with pytest.raises(StartFailedError) as caught:
            await Launcher(config_of(folder, model)).launch(model, lambda text: None)
        pids = {event["pid"] for event in events(folder / "events")}
        assert not [pid for pid in pids if is_alive(pid)]
    assert Records(folder / "state").found() == ([], [])
    return caught.value


def born(folder: Path) -> list[dict[str, Any]]:
    return [event for event in events(folder / "events") if event["what"] == "born"]


async def test_a_model_comes_up_warm_and_goes_without_a_trace(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "--alias", "the-model", "-c", "2048")) as running:
        assert running.address.port == born(tmp_path)[0]["port"]
        assert (running.context_size, running.warnings, running.has_exited) == (2048, (), False)
        [ask] = [event for event in events(tmp_path / "events") if event["what"] == "ask"]
        assert (ask["path"], ask["max_tokens"]) == ("/v1/chat/completions", 1)
        [record], damaged = Records(tmp_path / "state").found()
        assert (record.pid, record.port, damaged) == (running.pid, running.address.port, [])
    assert running.has_exited
    assert "listening" in running.tail()


async def test_the_real_context_is_what_the_server_says(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "-c", "4096", "--real-ctx", "2048")) as running:
        assert running.context_size == 2048


async def test_starting_takes_little_more_than_the_model(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "--load-s", "0.5")) as running:
        took = events(tmp_path / "events")
        [ask] = [event for event in took if event["what"] == "ask"]
        ready_s = born(tmp_path)[0]["at_s"] + 0.5
        assert ask["at_s"] - ready_s < 5.0  # 0.02 on an idle machine
        assert running.started_s > 0.5


async def test_a_child_that_ends_while_it_loads_is_told_with_its_last_words(tmp_path: Path) -> None:
    model = stand_in(tmp_path, "--load-s", "0.2", "--die-loading", "1", "--say", "E llama: failed to load model 'x'")
    began_s = time.monotonic()
    error = await failed(tmp_path, model)
    assert time.monotonic() - began_s < 20
    assert error.is_permanent
    assert "exit code 1" in str(error)
    assert "failed to load model 'x'" in str(error)
    assert "E llama: failed to load model 'x'" in error.log_tail
    assert len(born(tmp_path)) == 1


@pytest.mark.parametrize(
    ("said", "is_permanent"),
    [
        ("error: invalid argument: --x", True),
        ("failed to create MTP context", True),
        ("llama_init: failed to create_context", True),
        ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9 MiB: cudaMalloc failed: out of memory", False),
        ("std::bad_alloc, failed to load model", False),
        ("something else", False),
    ],
)
async def test_whether_another_try_may_help_is_read_from_its_words(
    tmp_path: Path, said: str, is_permanent: bool
) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "--die-loading", "1", "--say", said))
    assert error.is_permanent is is_permanent
    assert said in str(error)


async def test_a_child_that_was_killed_may_be_tried_again(tmp_path: Path) -> None:
    model = stand_in(tmp_path, "--load-s", "30", "--say", "failed to load model (not yet)")
    with anyio.fail_after(60):
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(failed(tmp_path, model))
            await until(lambda: born(tmp_path))
            os.kill(born(tmp_path)[0]["pid"], signal.SIGKILL)
    assert not starting.result().is_permanent
    assert "signal 9" in str(starting.result())


async def test_a_missing_model_file_is_told_without_a_process(tmp_path: Path) -> None:
    model = stand_in(tmp_path)
    model.path.unlink()
    error = await failed(tmp_path, model)
    assert error.is_permanent
    assert f"there is no file {model.path}" in str(error)
    assert born(tmp_path) == []


@pytest.mark.parametrize("program", ["no such program", "folder"])
async def test_a_program_that_cannot_be_run_is_told(tmp_path: Path, program: str) -> None:
    (tmp_path / "folder").mkdir()
    error = await failed(tmp_path, stand_in(tmp_path, program=(str(tmp_path / program),)))
    assert error.is_permanent
    assert f"cannot run {tmp_path / program}" in str(error)


async def test_words_that_are_too_long_for_the_system_are_told_for_good(tmp_path: Path) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "x" * 300_000))
    assert error.is_permanent
    assert "Argument list too long" in str(error)


async def test_a_start_that_never_ends_is_ended(tmp_path: Path) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "--never-healthy", "--ignore-term", "9", start_timeout_s=1.0))
    assert not error.is_permanent
    assert "it was not ready after" in str(error)


async def test_a_slow_start_that_gets_on_is_waited_for(tmp_path: Path) -> None:
    model = stand_in(tmp_path, "--load-s", "3", "--progress", start_timeout_s=1.0)
    async with launched(tmp_path, model) as running:
        assert running.started_s > 3


async def test_a_start_that_only_talks_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "--load-s", "60", "--progress", start_timeout_s=0.5))
    assert "not ready after 2 s" in str(error)


async def test_whoever_waits_hears_how_far_it_is(tmp_path: Path) -> None:
    told: list[str] = []
    model = stand_in(tmp_path, "--load-s", "0.5", "--progress")
    with anyio.fail_after(60):
        running = await Launcher(config_of(tmp_path, model)).launch(model, told.append)
        await running.stop()
    assert told[0].startswith("loading: ")
    assert told[-1] == "warming up"


async def test_cancelling_a_start_ends_the_child_before_it_returns(tmp_path: Path) -> None:
    model = stand_in(tmp_path, "--load-s", "60", "--ignore-term", "9", stop_grace_s=0.5)
    with anyio.fail_after(60):
        starting = asyncio.ensure_future(Launcher(config_of(tmp_path, model)).launch(model, lambda text: None))
        await until(lambda: born(tmp_path))
        starting.cancel()
        await asyncio.sleep(0.05)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not is_alive(born(tmp_path)[0]["pid"])
    assert Records(tmp_path / "state").found() == ([], [])


class Stranger(HTTPServer):
    """Answers everything with 200, and remembers what it was asked."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", port), _StrangerHandler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _StrangerHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Stranger)
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status":"ok","data":[{"id":"the-model"}]}')

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_a_port_that_is_taken_is_stepped_over(tmp_path: Path) -> None:
    model = stand_in(tmp_path)
    stranger = Stranger(model.internal_port)
    try:
        async with launched(tmp_path, model) as running:
            assert running.address.port > model.internal_port
            assert f"internal port {model.internal_port} is used by" in running.warnings[0]
    finally:
        stranger.end()
    assert stranger.asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a port is")
async def test_a_port_that_is_taken_before_its_death_is_noticed_gets_no_request(tmp_path: Path) -> None:
    model = stand_in(tmp_path)
    async with launched(tmp_path, model) as running:
        os.kill(running.pid, signal.SIGKILL)
        while not can_bind("127.0.0.1", running.address.port):
            time.sleep(0.001)  # the loop hears of nothing meanwhile
        stranger = Stranger(running.address.port)
        try:
            with pytest.raises(UpstreamDownError, match="another program has its port"):
                await ask(running.address, "GET", "/health", timeout_s=5)
        finally:
            await asyncio.to_thread(stranger.end)  # the connection ends on this loop
    assert stranger.asked == []


async def test_who_steps_over_a_port_does_not_step_on_another_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stand_in(tmp_path)
    first, choose = model.internal_port, launch.free_port
    other = stand_in(tmp_path, key="other", internal_port=first + 1, public_port=first + 2)
    monkeypatch.setattr(launch, "free_port", lambda port, *rest: port if port == first else choose(port, *rest))
    stranger = Stranger(first)
    try:
        with anyio.fail_after(60):
            running = await Launcher(config_of(tmp_path, model, other)).launch(model, lambda text: None)
            await running.stop()
    finally:
        stranger.end()
    assert running.address.port > first + 2


@pytest.mark.parametrize("is_known", [True, False], ids=["owner known", "owner not told"])
async def test_a_port_that_is_stolen_before_the_child_has_it_is_stepped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """The stranger comes between the choice and the bind: what looks healthy there is not ours."""
    model = stand_in(tmp_path)
    first, choose = model.internal_port, launch.free_port
    monkeypatch.setattr(launch, "free_port", lambda port, *rest: port if port == first else choose(port, *rest))
    if not is_known:
        monkeypatch.setattr(readiness, "owner_of", lambda port, leader: Owner.UNKNOWN)
    stranger = Stranger(first)
    try:
        async with launched(tmp_path, model) as running:
            assert running.address.port != first
    finally:
        stranger.end()
    assert set(stranger.asked) <= (set() if is_known else {"/health", "/v1/models"})


async def test_a_server_of_another_name_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not say whose the port is; here it is the child's, under another name."""
    monkeypatch.setattr(readiness, "owner_of", lambda port, leader: Owner.UNKNOWN)
    error = await failed(tmp_path, stand_in(tmp_path, "--alias", "another"))
    assert "answered by a server without model 'the-model'" in str(error)


async def test_a_warm_up_that_is_refused_is_a_warning(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "-c", "1")) as running:
        assert "warm-up request was refused with status 400" in running.warnings[0]
        assert "exceeds the available context size" in running.warnings[0]


@pytest.mark.parametrize("slowly_s", ["0", "1"])
async def test_a_child_that_ends_over_its_warm_up_has_not_started(tmp_path: Path, slowly_s: str) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "--die-asked", "1", "--die-slowly-s", slowly_s))
    assert "ended with exit code 9" in str(error)


async def test_a_child_that_never_answers_its_warm_up_has_not_started(tmp_path: Path) -> None:
    error = await failed(tmp_path, stand_in(tmp_path, "--hang-asked", start_timeout_s=1.0))
    assert "wrote not one token after" in str(error)


async def test_a_child_that_asks_for_a_key_gets_it(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "--api-key", "secret,other")) as running:
        assert running.warnings == ()
        assert running.headers == ((b"Authorization", b"Bearer secret"),)
        assert running.context_size == 4096


async def test_wrong_facts_are_no_facts(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "--props", "[1, 2")) as running:
        assert running.context_size == 0


async def test_disks_that_cannot_be_written_to_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    (tmp_path / "logs").write_text("here, too")
    model = stand_in(tmp_path, keeps_state=True)
    with anyio.fail_after(60):
        running = await Launcher(config_of(tmp_path, model)).launch(model, lambda text: None)
        await running.stop()
    assert len(running.warnings) == 3
    for said in "cannot write the log", "cannot make the folder", "cannot write to":
        assert any(said in warning for warning in running.warnings)
    assert "--slot-save-path" not in born(tmp_path)[0]["argv"]
    assert "listening" in running.tail()


async def test_odd_surroundings_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    folder = tmp_path / "путь с пробелом 模型"
    folder.mkdir()
    async with launched(folder, stand_in(folder, key="模型/a: b", alias="模型")) as running:
        assert running.warnings == ()


async def test_logs_are_private_and_have_what_the_child_said(tmp_path: Path) -> None:
    async with launched(tmp_path, stand_in(tmp_path, "--api-key", "secret", "--alias", "the-model")):
        pass
    [log] = (tmp_path / "logs").iterdir()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "listening" in log.read_text()
    assert "--api-key HIDDEN --alias the-model" in log.read_text()
    assert "secret" not in log.read_text()


async def test_the_words_of_an_earlier_start_are_not_this_ones(tmp_path: Path) -> None:
    model = stand_in(
        tmp_path, "--die-loading", "1", "--die-once", str(tmp_path / "once"), "--say", "failed to load model"
    )
    launcher = Launcher(config_of(tmp_path, model))
    with anyio.fail_after(60):
        with pytest.raises(StartFailedError):
            await launcher.launch(model, lambda text: None)
        running = await launcher.launch(model, lambda text: None)
        await running.stop()
    assert len(running.tail()) == 1


@pytest.mark.slow
async def test_many_lives_leave_nothing(tmp_path: Path) -> None:
    """WHITEDWARF_LIVES=200 before a release (spec/supervisor.md 7.30)."""
    us = psutil.Process()
    model = stand_in(tmp_path, "--grandchild")
    launcher = Launcher(config_of(tmp_path, model, max_log_bytes=1024))

    async def live() -> None:
        running = await launcher.launch(model, lambda text: None)
        await running.stop()

    with anyio.fail_after(400):
        await live()
        files, threads = us.num_fds(), us.num_threads()
        for _ in range(int(os.environ.get("WHITEDWARF_LIVES", "60"))):
            await live()
        await until(lambda: us.num_threads() <= threads)
    assert us.num_fds() == files
    assert us.children() == []
    assert Records(tmp_path / "state").found() == ([], [])
    assert not [pid for event in events(tmp_path / "events") if is_alive(pid := event["pid"])]
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "logs").iterdir()}
    assert len(sizes) == 2
    assert max(sizes.values()) <= 1024


async def test_a_child_that_ends_with_an_error_when_it_is_asked_to_has_ended(tmp_path: Path) -> None:
    """llama-swap 28: such a model stayed "ready" for ever (PS1)."""
    model = stand_in(tmp_path, "--exit-code", "143")
    launcher = Launcher(config_of(tmp_path, model))
    with anyio.fail_after(60):
        for _ in range(2):
            running = await launcher.launch(model, lambda text: None)
            await running.stop()
            assert await running.wait_exit() == 143
    assert len([event for event in events(tmp_path / "events") if event["what"] == "term"]) == 2


_SUPERVISOR = """
import asyncio, os, pickle, sys
from whitedwarf.supervisor.launch import Launcher
async def main():
    config, model = pickle.load(open(sys.argv[1], "rb"))
    running = await Launcher(config).launch(model, lambda text: None)
    print(running.pid, running.address.port, *running.warnings, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children of the dead")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_outlives_a_supervisor_that_ends_in_the_middle_of_a_request(tmp_path: Path, number: int) -> None:
    """llama-swap 100 (PS2), with stdin closed as some service runners leave it."""
    model = stand_in(tmp_path)
    order = tmp_path / "order"
    order.write_bytes(pickle.dumps((config_of(tmp_path, model), model)))
    script = f'exec {sys.executable} -c "$0" "$1" <&-'
    with anyio.fail_after(60):
        supervisor = await asyncio.create_subprocess_exec(
            "sh", "-c", script, _SUPERVISOR, str(order), stdout=asyncio.subprocess.PIPE
        )
        assert supervisor.stdout is not None
        pid, port, *warnings = (await supervisor.stdout.readline()).decode().split()
        assert warnings == []
        body = {"messages": [], "stream": True, "fake": {"events": 10_000, "pause_s": 0.05}}
        async with await begin(
            Address("127.0.0.1", int(port)), "POST", "/v1/chat/completions", (), json.dumps(body).encode()
        ) as exchange:
            await exchange.next_bytes()
            supervisor.send_signal(number)
            await supervisor.wait()
            with anyio.fail_after(30):
                await until(lambda: not is_alive(int(pid)))
                await until(lambda: can_bind("127.0.0.1", int(port)))
    assert stop_orphans(tmp_path / "state") == []


async def test_our_own_engine_is_launched_too(tmp_path: Path) -> None:
    nano = files("whitedwarf") / "data" / "nano.gguf"
    model = stand_in(
        tmp_path,
        backend=Backend.WHITEDWARF,
        program=(sys.executable, "-m", "whitedwarf", "serve"),
        path=Path(str(nano)),
        arguments=("-m", str(nano), "--ctx", "512", "--backend", "cpu", "--threads", "1"),
        start_timeout_s=60.0,
        stop_grace_s=20.0,
        keeps_state=True,
    )
    with anyio.fail_after(120):
        running = await Launcher(config_of(tmp_path, model)).launch(model, lambda text: None)
        assert (running.warnings, running.context_size) == ((), 512)
        await running.stop()
    assert await running.wait_exit() == 0


async def test_words_that_our_own_engine_does_not_know_are_told_for_good(tmp_path: Path) -> None:
    program = (sys.executable, "-m", "whitedwarf", "serve")
    model = stand_in(tmp_path, backend=Backend.WHITEDWARF, program=program, arguments=("--no-such-flag",))
    error = await failed(tmp_path, model)
    assert error.is_permanent
    assert "--no-such-flag" in str(error)
