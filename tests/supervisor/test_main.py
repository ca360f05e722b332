"""The life of a supervisor in a process of its own: ports, signals, another config, and what is left at the end."""

import asyncio
import fcntl
import itertools
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from supervisor.children import free_port, is_alive, until
from supervisor.supervisors import Supervisor, config_of, model_of, read_to_the_end, supervisor
from whitedwarf.supervisor.failures import UpstreamCutError, UpstreamDownError
from whitedwarf.supervisor.upstream import Exchange

pytestmark = pytest.mark.anyio


async def test_a_port_that_is_taken_is_named_with_its_model_and_owner_and_nothing_is_half_started(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path, "a", "b", "c")
    with socket.create_server(("127.0.0.1", config["models"][1]["publicPort"])) as taken:
        async with supervisor(tmp_path, config) as it:
            assert await it.code() == 1
            port = taken.getsockname()[1]
            assert f"port {port} of model 'b': " in it.text
            assert f"(process {os.getpid()}) listens there" in it.text
            assert "Traceback" not in it.text
            assert not await it.is_listening(config["models"][0]["publicPort"])
            assert it.children() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_with_its_models(tmp_path: Path, number: int, code: int) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        assert (await it.chat("a")).status == 200
        [child] = it.living()
        assert await it.end(number) == code
        assert not is_alive(child)
        assert "Traceback" not in it.text


async def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """As llama-server does: the first SIGTERM is not heeded while a stream is open."""
    config = config_of(tmp_path, "a", words=("--ignore-term", "1"), stopGraceSec=60)
    async with supervisor(tmp_path, config) as it, await it.stream("a", events=9999) as stream:
        began = time.monotonic()
        os.kill(it.pid, signal.SIGTERM)
        with pytest.raises(UpstreamCutError):
            await read_to_the_end(stream)
        assert await it.code() == 0
        assert 2 < time.monotonic() - began < 40
        assert len(it.children("term")) == 2


async def test_a_second_signal_is_faster(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--ignore-term", "99"), stopGraceSec=50)
    async with supervisor(tmp_path, config) as it, await it.stream("a", events=9999):
        os.kill(it.pid, signal.SIGTERM)
        await until(lambda: it.children("term"))
        began = time.monotonic()
        await it.end(signal.SIGTERM)
        assert time.monotonic() - began < 30


async def test_a_second_signal_ends_a_model_that_is_only_loading_too(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--ignore-term", "99", "--never-healthy"), stopGraceSec=50)
    async with supervisor(tmp_path, config) as it:
        asking = asyncio.create_task(it.chat("a"))
        await until(it.children)
        os.kill(it.pid, signal.SIGTERM)
        await until(lambda: it.children("term"))
        assert await it.end(signal.SIGTERM) == 130
        await until(lambda: it.living() == [])
        await asyncio.wait([asking])
        asking.exception()


async def test_another_config_keeps_what_did_not_change(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", "b")
    for model in config["models"]:
        model["group"] = "together"
    async with supervisor(tmp_path, config) as it:
        await it.chat("a")
        await it.chat("b")
        pids = [(await it.status(key))["pid"] for key in "ab"]
        a, b = config["models"]
        c = model_of(tmp_path, "c")
        moved = {**a, "publicPort": free_port(), "softContextLimit": 1000}
        it.write({**config, "models": [moved, {**b, "ctxSize": 8192}, c]})
        os.kill(it.pid, signal.SIGHUP)
        await until(lambda: "INFO reloaded models in the config: 3; on their way out: b" in it.text)
        assert (await it.status("a"))["pid"] == pids[0]
        assert (await it.status("a"))["soft_limit"] == 1000
        assert (await it.chat("a")).status == 200
        assert not await it.is_listening(a["publicPort"])
        assert (await it.chat("b")).status == 200
        assert (await it.status("b"))["pid"] not in (None, pids[1])
        assert (await it.chat("c")).status == 200


@pytest.mark.parametrize("text", ["{", '{"models": []}', '{"mdels": []}'])
async def test_a_config_that_cannot_be_used_changes_nothing(tmp_path: Path, text: str) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        await it.chat("a")
        pid = (await it.status("a"))["pid"]
        it.source.write_text(text)
        os.kill(it.pid, signal.SIGHUP)
        await until(lambda: "the config is not reloaded" in it.text)
        assert (await it.chat("a")).status == 200
        assert (await it.status("a"))["pid"] == pid


async def test_what_needs_a_restart_is_told_and_changes_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a")
    before = {"host": "127.0.0.1", "maxLog": 4 << 20, **config}
    async with supervisor(tmp_path, config) as it:
        for name, other in {
            "host": "127.0.0.2",
            "stateDir": str(tmp_path / "x"),
            "logDir": str(tmp_path / "y"),
            "maxLog": 9,
        }.items():
            it.write({**config, name: other})
            os.kill(it.pid, signal.SIGHUP)
            said = f"{name} is {other!r} now, was {before[name]!r}; that needs a restart"
            await until(lambda said=said: said in it.text)
        assert (await it.chat("a")).status == 200


async def test_a_new_port_that_is_taken_changes_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a")
    async with supervisor(tmp_path, config) as it:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            more = model_of(tmp_path, "b", publicPort=taken.getsockname()[1])
            free = model_of(tmp_path, "c")
            it.write({**config, "models": [more, free, *config["models"]]})
            os.kill(it.pid, signal.SIGHUP)
            await until(lambda: "the config is not reloaded" in it.text)
        assert "of model 'b'" in it.text
        assert not await it.is_listening(free["publicPort"])
        assert (await it.chat("a")).status == 200


async def test_two_supervisors_of_one_config_do_not_share_ports(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", "b")) as it:
        await it.chat("a")
        other = Supervisor(tmp_path, it.config)
        await other.begin()
        assert await other.code() == 1
        assert f": the supervisor of {it.source} (process {it.pid}) listens there. Stop" in it.text
        assert len(it.living()) == 1
        assert (await it.chat("a")).status == 200


async def test_a_wrong_config_ends_it_at_once(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", unknownThing=1)) as it:
        assert await it.code() == 2
        assert "unknownThing" in it.text


async def test_closed_standard_streams_stop_nothing(tmp_path: Path) -> None:
    it = Supervisor(tmp_path, config_of(tmp_path, "a"))
    async with asyncio.timeout(30):
        shell = f"exec '{sys.executable}' -m whitedwarf.supervisor '{it.source}' <&- >&- 2>&-"
        it.process = await asyncio.create_subprocess_exec("sh", "-c", shell)
        port = it.config["models"][0]["publicPort"]
        while not await it.is_listening(port):
            await asyncio.sleep(0.05)
        assert (await it.chat("a")).status == 200
        assert await it.end() == 0
        assert it.living() == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs a small pipe")
async def test_a_standard_error_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    it = Supervisor(tmp_path, config_of(tmp_path, "a"))
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    async with asyncio.timeout(30):
        it.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "whitedwarf.supervisor", str(it.source)), stderr=writing
        )
        while not await it.is_listening(it.config["models"][0]["publicPort"]):
            await asyncio.sleep(0.05)
        for _ in range(80):  # a line each
            os.kill(it.pid, signal.SIGHUP)
            await it.status("a")
        assert (await it.chat("a")).status == 200
        assert await it.end() == 0
        assert it.living() == []
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
async def test_large_requests_leave_no_memory_behind(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        process = psutil.Process(it.pid)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
        writers = []
        for _ in range(30):
            _, writer = await asyncio.open_connection("127.0.0.1", it.address("a").port)
            writer.write(head + b"x" * 4_000_000)
            writers.append(writer)
        await until(lambda: process.memory_info().rss > 100 << 20)
        for writer in writers:
            writer.transport.abort()
        await until(lambda: process.memory_info().rss < 60 << 20)


async def test_few_files_are_enough_for_fewer_clients(tmp_path: Path) -> None:
    it = Supervisor(tmp_path, config_of(tmp_path, "a"))
    async with asyncio.timeout(40):
        shell = f"ulimit -n 64; exec '{sys.executable}' -m whitedwarf.supervisor '{it.source}' 2>'{it.said}'"
        it.process = await asyncio.create_subprocess_exec("sh", "-c", shell)
        await it.ready()
        others = [await asyncio.open_connection("127.0.0.1", it.address("a").port) for _ in range(100)]
        assert (await it.chat("a")).status == 200
        streams = [it.stream("a", events=20) for _ in range(40)]
        begun = [one for one in await asyncio.gather(*streams, return_exceptions=True) if isinstance(one, Exchange)]
        assert begun
        assert {one.status for one in begun} == {200}
        for one in begun:
            await read_to_the_end(one)
        assert (await it.order("a", "unload")).status == 200
        assert (await it.chat("a")).status == 200
        assert await it.end() == 0
        for _, writer in others:
            writer.close()


def owners_of(port: int) -> list[int]:
    found = (one for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port)
    return [one.pid for one in found if one.status == psutil.CONN_LISTEN and one.pid]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_a_model_gets_no_file_that_the_supervisor_was_started_with(tmp_path: Path) -> None:
    it = Supervisor(tmp_path, config_of(tmp_path, "a"))
    held = tmp_path / "held"
    async with asyncio.timeout(30):
        shell = f"exec '{sys.executable}' -m whitedwarf.supervisor '{it.source}' 7>'{held}' 2>'{it.said}'"
        it.process = await asyncio.create_subprocess_exec("sh", "-c", shell)
        await it.ready()
        assert (await it.chat("a")).status == 200
        (child,) = it.living()
        files = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{child}/fd")]  # noqa: PTH115
        assert str(held) not in files
        # The sockets it has are its own: a public port kept open by a model would outlive the supervisor.
        for port in (model["publicPort"] for model in it.config["models"]):
            assert it.pid in owners_of(port)
            assert child not in owners_of(port)
        assert await it.end() == 0


# The whole of it


async def test_two_first_requests_at_once_start_one_process(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", words=("--load-s", "0.3"))) as it:
        answers = await asyncio.gather(it.chat("a", "the task"), it.chat("a", "its title"))
        assert [answer.status for answer in answers] == [200, 200]
        assert len(it.children()) == 1


async def test_a_client_that_leaves_a_cold_start_is_not_asked_for_and_the_model_is_ready_for_the_next(
    tmp_path: Path,
) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", words=("--load-s", "0.5"))) as it:
        asking = asyncio.create_task(it.chat("a", mark="left"))
        await until(it.children)
        asking.cancel()
        await asyncio.wait([asking])
        while (await it.status("a"))["state"] != "loaded":
            await asyncio.sleep(0.02)
        assert (await it.chat("a", mark="stayed")).status == 200
        assert "left" not in {asked["mark"] for asked in it.children("ask")}
        assert len(it.children()) == 1


async def test_a_request_for_another_model_leaves_the_bytes_of_a_stream_alone(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", "b")) as it:

        async def streamed() -> bytes:
            async with await it.stream("a", events=20) as stream:
                return b"".join([piece async for piece in stream.pieces()])

        alone = await streamed()
        begun = asyncio.create_task(streamed())
        while not (await it.status("a"))["in_flight"]:
            await asyncio.sleep(0.01)
        other = await it.chat("b")
        assert json.loads(other.body)["model"] == "b"
        assert len(await begun) == len(alone) > 1000
        assert begun.result() == alone
        assert len(it.living()) == 1


async def test_an_interrupting_request_cuts_a_stream_and_is_served(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", "b", swapPolicy="interrupt")
    async with supervisor(tmp_path, config) as it, await it.stream("a", events=9999) as stream:
        assert (await it.chat("b")).status == 200
        with pytest.raises(UpstreamCutError):
            await read_to_the_end(stream)


async def test_a_start_that_never_ends_is_ended_and_all_who_wait_hear_the_same(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--never-healthy",), startTimeoutSec=1)
    async with supervisor(tmp_path, config) as it:
        answers = await asyncio.gather(it.chat("a"), it.chat("a"), it.chat("a"))
        assert len({(answer.status, answer.body) for answer in answers}) == 1
        assert answers[0].status >= 400
        assert it.living() == []
        assert len(it.children()) == 1


async def test_ping_pong_of_two_models_never_has_both(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", "b")) as it:
        for _ in range(3):
            answers = await asyncio.gather(*(it.chat(key) for key in "abab"))
            assert [json.loads(answer.body)["model"] for answer in answers] == ["a", "b", "a", "b"]
            assert len(it.living()) == 1
        lives = [(child["at_s"], child["pid"]) for child in it.children()]
        ends = {term["pid"]: term["at_s"] for term in it.children("term")}
        for (_, pid), (born_s, _) in itertools.pairwise(lives):
            assert ends[pid] < born_s


async def test_a_model_that_is_killed_in_a_stream_is_started_for_the_next_request(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        async with await it.stream("a", events=9999) as stream:
            os.kill(it.living()[0], signal.SIGKILL)
            with pytest.raises(UpstreamCutError):
                await read_to_the_end(stream)
        assert (await it.chat("a")).status == 200
        assert len(it.children()) == 2


async def test_a_model_that_dies_before_its_answer_is_asked_again_once(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        await it.chat("a")
        answer = await it.chat("a", fake={"before": "die"})
        assert answer.status in (502, 503)
        assert len(it.children()) == 2  # the second one died of it too, and there is no third start
        assert (await it.chat("a")).status == 200


async def test_a_start_that_fails_is_told_with_the_childs_words_and_not_repeated(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--die-loading", "1", "--say", "E failed to load model"))
    async with supervisor(tmp_path, config) as it:
        first, second = await it.chat("a"), await it.chat("a")
        assert 400 <= first.status < 500
        assert b"failed to load model" in first.body
        assert second.status == first.status
        assert len(it.children()) <= 2


async def test_idle_models_go_and_looking_at_them_does_not_keep_them(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", idleTimeoutSec=0.5)
    async with supervisor(tmp_path, config) as it:
        await it.chat("a")
        while it.living():
            assert (await it.get("a", "/v1/models")).status == 200
            assert (await it.get("a", "/props")).status in (200, 502, 503)  # 502: it went while it was asked
            await asyncio.sleep(0.02)
        while (await it.status("a"))["state"] == "stopping":  # its end is noticed a moment after it
            await asyncio.sleep(0.02)
        assert (await it.status("a"))["state"] == "unloaded"
        assert (await it.get("a", "/props")).status == 503


async def test_unloading_cuts_streams_and_answers_when_the_model_is_gone(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it, await it.stream("a", events=9999) as stream:
        answers = await asyncio.gather(it.order("a", "unload"), it.order("a", "unload?model=a"))
        assert [answer.status for answer in answers] == [200, 200]
        assert it.living() == []
        with pytest.raises((UpstreamCutError, UpstreamDownError)):
            await read_to_the_end(stream)
        assert (await it.chat("a")).status == 200


async def test_a_soft_limit_blocks_lets_the_summary_pass_and_blocks_again(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--ctx-size", "4096"))
    config["models"][0].update(ctxSize=4096, softContextLimit=3000)
    async with supervisor(tmp_path, config) as it:
        blocked = await it.chat("a", "x" * 3500)
        expected = {
            "code": 400,
            "message": "request (3500 tokens) exceeds the available context size (3000 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 3500,
            "n_ctx": 3000,
        }
        assert (blocked.status, blocked.body) == (
            400,
            json.dumps({"error": expected}, separators=(",", ":")).encode(),
        )
        assert (await it.chat("a", "x" * 3500)).status == 200
        assert (await it.chat("a", "y" * 3500)).status == 400
        assert json.loads((await it.chat("a", "x" * 5000)).body)["error"]["n_ctx"] == 4096
        assert (await it.status("a"))["counting"] == "exact"
