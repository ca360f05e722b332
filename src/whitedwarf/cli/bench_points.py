"""`whitedwarf bench points`: what llama-bench measures, with its flags and its JSON."""

from typing import Annotated

from cyclopts import Parameter

from whitedwarf.bench.machine import device_of
from whitedwarf.bench.points import measure_points
from whitedwarf.bench.resident import peak_beyond_files_bytes
from whitedwarf.cli.bench_flags import POINT_DEPTHS, asked_points
from whitedwarf.cli.bench_model import measured_ops, open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.ops.base import Ops
from whitedwarf.ops.cpu import CpuOps


def command(
    *,
    prefill: Annotated[str, Parameter(name=("--prefill", "-p"))] = "512",
    decode: Annotated[str, Parameter(name=("--decode", "-n"))] = "64",
    depths: Annotated[str, Parameter(name=("--depths", "-d"))] = POINT_DEPTHS,
    repeats: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 5,
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
    """
    asked = asked_points(prefill, decode, depths)
    output.check()
    loaded = open_for(model, max(point.end for point in asked) + 1, None, "these lengths and depths")
    output.check(loaded.gguf.paths)
    progress = ProgressLine()
    found = list(measure_points(loaded.paced, asked, repeats, loaded.chunk_tokens, progress.show))
    progress.clear()
    rows = [(rates.point.name, rates.as_llama_bench()) for rates in found]
    table = [f"{name:>14} {test['avg_ts']:>10.2f} ± {test['stddev_ts']:.2f} tokens/s" for name, test in rows]
    document: dict[str, object] = {
        "model": loaded.gguf.paths[0].name,
        "machine": _machine(measured_ops(loaded)),
        "prefill_chunk": loaded.chunk_tokens,
        "peak_beyond_files_bytes": peak_beyond_files_bytes(),
        "tests": [test for _, test in rows],
    }
    output.finish("\n".join(table), document)


def _machine(ops: Ops) -> dict[str, object]:
    if isinstance(ops, CpuOps):
        return {"cpu": read_machine().cpu, "threads": ops.kernels.threads, "level": ops.level}
    return {"cpu": read_machine().cpu, "level": ops.name, "device": str(device_of(ops))}
