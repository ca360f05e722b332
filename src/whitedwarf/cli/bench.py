"""`whitedwarf bench`: speed at growing contexts, the distance to the memory's limit, and a peer in the same run."""

import csv
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.bench.bandwidth import read_bandwidth
from whitedwarf.bench.peer import PeerRun, run_peer
from whitedwarf.bench.report import Machine, Report
from whitedwarf.bench.speed import Plan, Sample, measure
from whitedwarf.bench.traffic import traffic_per_token
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.errors import UsageError
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import load_tensors

MAX_FRONTIERS = 1000
CSV_HEADER = ("ctx_tokens", "prefill_tokens", "prefill_tps", "gen_tokens", "gen_tps", "kvcache_bytes")


def command(
    *,
    ctx_start: Annotated[int, Parameter(validator=POSITIVE)] = 512,
    ctx_max: Annotated[int, Parameter(validator=POSITIVE)] = 2048,
    step_incr: Annotated[int, Parameter(validator=POSITIVE)] = 512,
    step_mul: Annotated[float, Parameter()] = 1.0,
    gen_tokens: Annotated[int, Parameter(name=("--gen-tokens", "-n"), validator=POSITIVE)] = 64,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    llama_bench: Annotated[Path | None, Parameter()] = None,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure prefill and decode at context lengths from --ctx-start to --ctx-max.

    A table goes to standard output, and one JSON document as its last line.

    Parameters
    ----------
    ctx_start
        First context length.
    ctx_max
        Last context length.
    step_incr
        Tokens between two context lengths.
    step_mul
        Factor between two context lengths; above 1 it is used instead of --step-incr.
    gen_tokens
        Tokens decoded at each context length.
    csv_file
        Also write the figures as CSV.
    llama_bench
        A llama-bench of llama.cpp: runs the same file after us.
    """
    frontiers = tuple(_frontiers(ctx_start, ctx_max, step_incr, step_mul))
    if csv_file is not None:
        check_output(csv_file)
    loaded = open_model(model)
    if csv_file is not None:
        check_output(csv_file, loaded.gguf.paths)
    _check_context(loaded, frontiers[-1] + gen_tokens)
    report = _measure(loaded, Plan(frontiers, gen_tokens, loaded.chunk_tokens), llama_bench)
    if csv_file is not None:
        _write_csv(csv_file, report.samples)
    print(report.table())
    print(report.json_line())


def _measure(loaded: LoadedModel, plan: Plan, llama_bench: Path | None) -> Report:
    ops = loaded.transformer.ops
    if not isinstance(ops, CpuOps):
        raise UsageError(f"bench measures the cpu backend; got --backend {ops.name}")
    progress = ProgressLine()
    progress.show("measuring memory")
    machine = Machine(read_machine().cpu, ops.kernels.threads, ops.level, read_bandwidth(ops.kernels.read_all))
    samples = list(measure(loaded.transformer, plan, lambda done: progress.show(f"{done}/{plan.frontiers[-1]} tokens")))
    path, peer = loaded.gguf.paths[0], []
    if llama_bench is not None:
        progress.show(f"{llama_bench.name} on the same file")
        peer = run_peer(PeerRun(llama_bench, path, plan.frontiers[0], plan.decode_tokens, machine.threads))
    progress.clear()
    traffic = traffic_per_token(load_tensors(loaded.gguf), loaded.transformer.config.hp)
    return Report(path.name, machine, traffic, samples, peer)


def _frontiers(start: int, end: int, increment: int, factor: float) -> Sequence[int]:
    """Context lengths to stop at; the last one is exactly `end`."""
    if start > end or not 1 <= factor < math.inf:
        raise UsageError(f"expected --ctx-start {start} <= --ctx-max {end} and a finite --step-mul {factor} >= 1")
    lengths: list[int] = []
    current = start
    while current < end:
        if len(lengths) == MAX_FRONTIERS:
            raise UsageError(
                f"expected at most {MAX_FRONTIERS} context lengths from {start} to {end}: take wider steps"
            )
        lengths.append(current)
        current = int(-(-current * factor // 1)) if factor > 1 else current + increment
    return [*lengths, end]


def _check_context(loaded: LoadedModel, needed: int) -> None:
    if needed > loaded.context_length:
        raise UsageError(f"--ctx-max and --gen-tokens need {needed} tokens, the context has {loaded.context_length}")


def _write_csv(path: Path, samples: Sequence[Sample]) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(CSV_HEADER)
    rows.writerows(_csv_row(sample) for sample in samples)
    write_text(path, text.getvalue())
    print(f"whitedwarf: wrote {path}", file=sys.stderr)


def _csv_row(sample: Sample) -> tuple[object, ...]:
    decode = f"{1 / sample.decode_median_s:.2f}"
    prefill = f"{sample.prefill_tokens_per_s:.2f}"
    return (sample.context_tokens, sample.prefill_tokens, prefill, len(sample.decode_s), decode, sample.kv_bytes)
