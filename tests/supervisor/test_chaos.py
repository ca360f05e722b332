"""Whatever breaks, every request ends in an answer or in one clear error, and nothing is left running."""

import asyncio
import os
import signal
from pathlib import Path

import anyio
import psutil
import pytest

from supervisor import chaos
from supervisor.children import until
from supervisor.supervisors import Supervisor, config_of, supervisor

pytestmark = pytest.mark.anyio


async def run_chaos(folder: Path, seed: int, count: int) -> chaos.Tally:
    config = config_of(folder, "a", "b", "c", stopGraceSec=4, startTimeoutSec=10)
    for model in config["models"][:2]:
        model["group"] = "small ones"
    it = Supervisor(folder, config)
    await it.begin()
    try:
        await it.ready()
        tally = await chaos.run(it, chaos.plans(seed, count, "abc"), seed)
        assert await it.end() == 0
        await until(lambda: it.living() == [])
        return tally
    finally:
        for pid in [it.pid, *it.living()]:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
        await it.code()


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_request_of_a_chaotic_time_ends_in_an_answer_or_one_clear_error(tmp_path: Path, seed: int) -> None:
    async with asyncio.timeout(400):
        tally = await run_chaos(tmp_path, seed, 250)
    print(f"seed {seed}: {dict(tally.outcomes)}; {dict(tally.troubles)}")
    assert tally.wrong == []
    assert sum(tally.outcomes.values()) == 250
    assert tally.outcomes["answer"] > 100
    assert "Traceback" not in (tmp_path / "said").read_text()
    assert list((tmp_path / "state").rglob("*.json")) == []  # no record of a process is left


async def test_many_lives_of_a_model_leave_nothing_behind(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", words=("--load-s", "0")), limit_s=300) as it:
        process = psutil.Process(it.pid)

        async def live(times: int) -> tuple[int, int, int]:
            for _ in range(times):
                assert (await it.chat("a")).status == 200
                assert (await it.order("a", "unload")).status == 200
                assert not any(child.status() == psutil.STATUS_ZOMBIE for child in process.children())
            fewest = process.num_fds()
            for _ in range(20):  # a connection that is about to close is none that stays
                await anyio.sleep(0.05)
                fewest = min(fewest, process.num_fds())
            return fewest, process.num_threads(), process.memory_info().rss

        first = await live(20)
        last = await live(180)
    assert last[:2] == first[:2]
    assert last[2] - first[2] < 2 << 20
