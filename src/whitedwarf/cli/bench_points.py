"""`whitedwarf bench points`: what llama-bench measures, with its flags and its JSON."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from whitedwarf.bench.counted import counted
from whitedwarf.bench.machine import cpu_kernels, device_of
from whitedwarf.bench.pick_trace import PickRecorder
from whitedwarf.bench.points import How, measure_points
from whitedwarf.bench.resident import peak_beyond_files_bytes
from whitedwarf.bench.speed import SEED
from whitedwarf.cli.bench_flags import POINT_DEPTHS, asked_points
from whitedwarf.cli.bench_model import measured_ops, open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.output_file import check_output, write_bytes
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.ops.base import Ops


def command(
    *,
    prefill: Annotated[str, Parameter(name=("--prefill", "-p"))] = "512",
    decode: Annotated[str, Parameter(name=("--decode", "-n"))] = "64",
    depths: Annotated[str, Parameter(name=("--depths", "-d"))] = POINT_DEPTHS,
    repeats: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 5,
    seed: Annotated[int, Parameter(validator=POSITIVE)] = SEED,
    no_warm_up: bool = False,
    picks: Path | None = None,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure prefill and decode of random ids at depths: all combinations.

    A table goes to standard output, and one JSON document as its last line; its tests are written as llama-bench -o
    json writes them.

    Parameters
    ----------
    prefill
        Prompt lengths, with commas between; 0 for none.
    decode
        Numbers of tokens to decode, with commas between; 0 for none.
    depths
        Tokens that are there already, with commas between.
    repeats
        Repetitions of each, after a warm-up.
    seed
        Of the random ids.
    no_warm_up
        Measure from the first token on, as a program meets it that has just started.
    picks
        Also write which experts each decoded token picked to this file (.npy): (tokens, layers, experts used).
    """
    asked = asked_points(prefill, decode, depths)
    output.check()
    if picks is not None:
        check_output(picks)
    recorders: list[PickRecorder] = []

    def wrap(ops: Ops) -> Ops:
        recorder, wrapped = PickRecorder.around(ops)
        recorders.append(recorder)
        return wrapped if picks is not None else ops

    needed = max(point.end for point in asked) + 1
    loaded = open_for(model, needed, None, "these lengths and depths", wrap)
    output.check(loaded.gguf.paths)
    progress = ProgressLine()
    how = How(seed, not no_warm_up, partial(counted, loaded.expert_stats))
    found = list(measure_points(loaded.paced, asked, repeats, loaded.chunk_tokens, progress.show, how))
    progress.clear()
    if picks is not None:
        file = BytesIO()
        np.save(file, recorders[0].picks, allow_pickle=False)
        write_bytes(picks, file.getvalue())
    rows = [(rates.point.name, rates.as_llama_bench()) for rates in found]
    table = [f"{name:>14} {test['avg_ts']:>10.2f} ± {test['stddev_ts']:.2f} tokens/s" for name, test in rows]
    document: dict[str, object] = {
        "model": loaded.gguf.paths[0].name,
        "machine": _machine(measured_ops(loaded)),
        "prefill_chunk": loaded.chunk_tokens,
        "peak_beyond_files_bytes": peak_beyond_files_bytes(),
        "streaming": None if loaded.streaming is None else loaded.streaming.document(),
        "tests": [test for _, test in rows],
    }
    output.finish("\n".join(table), document)


def _machine(ops: Ops) -> dict[str, object]:
    kernels = cpu_kernels(ops)
    if kernels is not None:
        return {"cpu": read_machine().cpu, "threads": kernels.threads, "level": kernels.level}
    return {"cpu": read_machine().cpu, "level": ops.name, "device": str(device_of(ops))}
