"""The real llama-server is started, understood, stopped and found again (spec/supervisor.md 7, those with R)."""

import asyncio
import json
import pickle
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.children import config_of, free_port, is_alive, until
from whitedwarf.supervisor.config import Backend, ManagedModel
from whitedwarf.supervisor.failures import StartFailedError, UpstreamCutError
from whitedwarf.supervisor.launch import Launcher, RunningModel
from whitedwarf.supervisor.listeners import can_bind
from whitedwarf.supervisor.orphans import Records, stop_orphans
from whitedwarf.supervisor.upstream import Exchange, ask, begin

pytestmark = [pytest.mark.anyio, pytest.mark.clients]


@pytest.fixture
def model(bare_llama_server: Path, markov: Path) -> ManagedModel:
    return ManagedModel(
        key="markov",
        alias="markov",
        path=markov,
        public_port=1,
        internal_port=free_port(),
        backend=Backend.LLAMA_SERVER,
        program=(str(bare_llama_server),),
        arguments=("-m", str(markov), "-c", "1024", "-np", "1", "--jinja"),
        settle_s=0.0,
        start_timeout_s=60.0,
        stop_grace_s=20.0,
    )


def with_words(model: ManagedModel, *words: str) -> ManagedModel:
    return replace(model, arguments=(*model.arguments, *words))


async def launch(folder: Path, model: ManagedModel) -> RunningModel:
    return await Launcher(config_of(folder, model)).launch(model, lambda text: None)


async def answer(running: RunningModel, prompt: str, **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **more}
    headers = (*running.headers, (b"Content-Type", b"application/json"))
    told = await ask(running.address, "POST", "/v1/chat/completions", headers, json.dumps(body).encode(), timeout_s=60)
    value = json.loads(told.body)
    assert isinstance(value, dict)
    return value


async def failure(folder: Path, model: ManagedModel, said: str) -> StartFailedError:
    """Build 10434 ends without its last lines three times in a hundred: then the next start tells."""
    error = StartFailedError("", is_permanent=False)
    with anyio.fail_after(120):
        for _ in range(4):
            with pytest.raises(StartFailedError) as caught:
                await launch(folder, model)
            error = caught.value
            if said in "\n".join(error.log_tail):
                break
    return error


async def test_it_comes_up_warm_says_its_context_and_goes(tmp_path: Path, model: ManagedModel) -> None:
    with anyio.fail_after(120):
        running = await launch(tmp_path, model)
        assert (running.warnings, running.context_size) == ((), 1024)
        assert (await answer(running, "Count from 5"))["choices"][0]["message"]["content"] == "43210"
        await running.stop()
        assert await running.wait_exit() == 0
    assert not is_alive(running.pid)


async def test_slots_that_share_the_context_have_less_of_it(tmp_path: Path, model: ManagedModel) -> None:
    arguments = [word if word != "1" else "2" for word in model.arguments]
    with anyio.fail_after(120):
        running = await launch(tmp_path, replace(model, arguments=tuple(arguments)))
        await running.stop()
    assert running.context_size == 512


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--no-such-flag",), "invalid argument: --no-such-flag"),
        (("--spec-type", "draft-mtp"), "MTP context"),
        (("-ctv", "q4_0", "--flash-attn", "off"), "failed to create_context"),
    ],
    ids=["bad flag", "mtp without a head", "quantised cache without flash attention"],
)
async def test_what_can_never_start_is_told_as_that(
    tmp_path: Path, model: ManagedModel, words: tuple[str, ...], said: str
) -> None:
    error = await failure(tmp_path, with_words(model, *words), said)
    assert error.is_permanent
    assert said in "\n".join(error.log_tail)


async def test_a_file_that_is_no_model_is_told_as_that(tmp_path: Path, model: ManagedModel) -> None:
    (tmp_path / "x.gguf").write_bytes(model.path.read_bytes()[:5000])
    broken = replace(model, path=tmp_path / "x.gguf", arguments=("-m", str(tmp_path / "x.gguf")))
    error = await failure(tmp_path, broken, "failed to load model")
    assert error.is_permanent
    assert "failed to load model" in "\n".join(error.log_tail)


async def test_a_stolen_port_is_stepped_over(
    tmp_path: Path, model: ManagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whitedwarf.supervisor import launch as module

    choose = module.free_port
    asked: list[bytes] = []

    async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    with anyio.fail_after(120):
        stranger = await asyncio.start_server(strange, "127.0.0.1", model.internal_port)
        monkeypatch.setattr(
            module, "free_port", lambda port, *rest: port if port == model.internal_port else choose(port, *rest)
        )
        running = await launch(tmp_path, model)
        assert running.address.port != model.internal_port
        assert "is used by" in running.warnings[0]
        await running.stop()
        stranger.close()
        await stranger.wait_closed()
    assert asked == []


async def test_an_open_stream_does_not_keep_it_for_half_a_minute(tmp_path: Path, model: ManagedModel) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "stream": True, "max_tokens": 100_000, "temperature": 0}
    with anyio.fail_after(120):
        running = await launch(tmp_path, with_words(model, "--context-shift"))
        headers = [(b"Content-Type", b"application/json")]
        async with await begin(
            running.address, "POST", "/v1/chat/completions", headers, json.dumps(body).encode()
        ) as exchange:
            await exchange.next_bytes()
            began_s = time.monotonic()
            stopping = asyncio.ensure_future(running.stop())
            with pytest.raises(UpstreamCutError):
                await drain(exchange)
            await stopping
    assert time.monotonic() - began_s < 20
    assert not is_alive(running.pid)


async def test_what_it_has_read_outlives_it(tmp_path: Path, model: ManagedModel) -> None:
    prompt = "x" * 600
    with anyio.fail_after(120):
        launcher = Launcher(config_of(tmp_path, model))
        running = await launcher.launch(model, lambda text: None)
        first = await answer(running, prompt)
        await running.stop()
        running = await launcher.launch(model, lambda text: None)
        again = await answer(running, prompt)
        await running.stop()
    assert again["choices"][0]["message"]["content"] == first["choices"][0]["message"]["content"]
    assert first["timings"]["prompt_n"] > 600
    assert again["timings"]["prompt_n"] < 50
    assert again["timings"]["cache_n"] > 550


async def test_one_that_asks_for_a_key_is_warmed_up_with_it(tmp_path: Path, model: ManagedModel) -> None:
    with anyio.fail_after(120):
        running = await launch(tmp_path, with_words(model, "--api-key", "secret"))
        assert running.warnings == ()
        assert running.context_size == 1024
        await running.stop()


async def drain(exchange: Exchange) -> None:
    while await exchange.next_bytes():
        pass


_SUPERVISOR = """
import asyncio, pickle, sys
from whitedwarf.supervisor.launch import Launcher
async def main():
    config, model = pickle.load(sys.stdin.buffer)
    running = await Launcher(config).launch(model, lambda text: None)
    print(running.pid, running.address.port, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["the kernel ends it", "the next start ends it"])
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel")
async def test_it_does_not_outlive_a_supervisor_that_is_killed(tmp_path: Path, model: ManagedModel, how: str) -> None:
    code = _SUPERVISOR
    if how == "the next start ends it":
        code = "from whitedwarf.supervisor import process_group\nprocess_group._die_with_us = lambda pid: None\n" + code
    config = config_of(tmp_path, model)
    with anyio.fail_after(120):
        supervisor = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdin.write(pickle.dumps((config, model)))
        supervisor.stdin.close()
        pid, port = map(int, (await supervisor.stdout.readline()).split())
        supervisor.send_signal(signal.SIGKILL)
        await supervisor.wait()
        if how == "the next start ends it":
            await asyncio.sleep(0.2)
            assert is_alive(pid)
            assert f"process {pid}, port {port}" in stop_orphans(config.state_folder)[0]
        with anyio.fail_after(5):
            await until(lambda: not is_alive(pid))
            await until(lambda: can_bind("127.0.0.1", port))  # its threads end after its first
    assert stop_orphans(config.state_folder) == []
    assert Records(config.state_folder).found() == ([], [])
