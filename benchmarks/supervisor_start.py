"""What starting a model through the supervisor costs over the model's own start.

    python benchmarks/supervisor_start.py [--runs 11] [--llama-server PATH --model FILE]

Both are measured from the spawn, turn about: by hand until the first 200 of /health, asked every 2 ms; and by
Launcher.launch, whose extra is finding out whose port it is, polling less often, /props, and the warm-up of one token
(told apart as `warm_up_ms`, since it is work that the first request then has not). Without settling. The stand-in of
the tests is the model unless a llama-server is given. The last line is one JSON document.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from supervisor.children import config_of, free_port, stand_in
from whitedwarf.supervisor.child import spawn
from whitedwarf.supervisor.child_log import ChildLog
from whitedwarf.supervisor.commands import child_command
from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.failures import UpstreamError
from whitedwarf.supervisor.launch import Launcher
from whitedwarf.supervisor.upstream import Address, ask


async def own_s(folder: Path, model: ManagedModel) -> float:
    began_s = time.perf_counter()
    child = await spawn(child_command(model, model.internal_port, folder), log=ChildLog(folder / "own.log", 1 << 20))
    address = Address("127.0.0.1", model.internal_port)
    while True:
        try:
            if (await ask(address, "GET", "/health", timeout_s=1)).status == 200:
                break
        except UpstreamError:
            pass
        await asyncio.sleep(0.002)
    took_s = time.perf_counter() - began_s
    await child.stop()
    return took_s


async def launched_s(folder: Path, model: ManagedModel) -> tuple[float, float]:
    """Until it is warm, and of that the warm-up."""
    told: list[float] = []
    began_s = time.perf_counter()
    running = await Launcher(config_of(folder, model)).launch(model, lambda text: told.append(time.perf_counter()))
    ended_s = time.perf_counter()
    await running.stop(saves_state=False)
    return ended_s - began_s, ended_s - told[-1]  # the last thing told is the warm-up


async def measure(folder: Path, model: ManagedModel, runs: int) -> dict[str, float]:
    own, launched, warm = [], [], []
    for run in range(runs + 1):
        fresh = replace(model, internal_port=free_port())
        own_one = await own_s(folder, fresh)
        launched_one, warm_one = await launched_s(folder, replace(model, internal_port=free_port()))
        if run:  # the first warms the caches
            own.append(own_one)
            launched.append(launched_one)
            warm.append(warm_one)
    extra = [one - other for one, other in zip(launched, own, strict=True)]
    ms = {"own_ms": own, "launched_ms": launched, "warm_up_ms": warm, "extra_ms": extra}
    told = {name: round(1e3 * statistics.median(values), 1) for name, values in ms.items()}
    return told | {"extra_worst_ms": round(1e3 * max(extra), 1), "runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--load-s", default="0.5")
    parser.add_argument("--llama-server")
    parser.add_argument("--model")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = stand_in(folder, "--load-s", told.load_s)
        if told.llama_server:
            arguments = ("-m", told.model, "-c", "1024", "-np", "1", "--jinja")
            model = replace(model, program=(told.llama_server,), arguments=arguments, path=Path(told.model))
        result = asyncio.run(measure(folder, model, told.runs))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
