"""`whitedwarf bench`: speed at growing contexts, and the distance to the memory's limit."""

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.bandwidth import SIZE_BYTES
from whitedwarf.bench.frontiers import csv_text, frontiers, speeds
from whitedwarf.bench.limits import int8_peak
from whitedwarf.bench.machine import SMALL_BYTES, cpu_kernels, measured_machine
from whitedwarf.bench.plot import Picture, check_plot, draw_speeds
from whitedwarf.bench.report import Report
from whitedwarf.bench.resident import peak_beyond_files_bytes
from whitedwarf.bench.speed import Plan, measure
from whitedwarf.bench.traffic import layer_traffic, operations_per_token
from whitedwarf.cli.bench_model import end_of_answer, measured_ops, open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings, told
from whitedwarf.cli.bench_prompt import BenchPrompt
from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.cli.loading import LoadedModel
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_CLUSTER, DEFAULT_MODEL, POSITIVE, ClusterSettings, ModelSettings
from whitedwarf.engine.power import FULL_POWER_PERCENT
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Logits
from whitedwarf.weights.store import load_tensors

DEFAULT_CTX_MAX = 32_768
DEFAULT_PROMPT = BenchPrompt()


def command(
    *,
    ctx_start: Annotated[int, Parameter(validator=POSITIVE)] = 2048,
    ctx_max: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    ctx_alloc: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    step_incr: Annotated[int, Parameter(validator=POSITIVE)] = 2048,
    step_mul: float = 1.0,
    gen_tokens: Annotated[int, Parameter(name=("--gen-tokens", "--tokens", "-n"), validator=Number(gte=0))] = 128,
    repeats: Annotated[int, Parameter(validator=POSITIVE)] = 1,
    prompt: BenchPrompt = DEFAULT_PROMPT,
    csv_file: Annotated[Path | None, Parameter(name="--csv")] = None,
    plot: Path | None = None,
    dump_frontier_logits_dir: Path | None = None,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
) -> None:
    """Measure prefill and decode at context lengths from --ctx-start to --ctx-max.

    Each length is read on from the one before it; decoding there is taken back. A table goes to standard output, and
    one JSON document as its last line.

    Parameters
    ----------
    ctx_start
        First context length.
    ctx_max
        Last context length. Default: 32768, or what there is room for.
    ctx_alloc
        Context length that the model is given. Default: --ctx-max and --gen-tokens and one.
    step_incr
        Tokens between two context lengths.
    step_mul
        Factor between two context lengths; above 1 it is used instead of --step-incr.
    gen_tokens
        Tokens decoded greedily at each context length, never the end of an answer; 0: prefill only.
    repeats
        How often each length is measured, from the length before it; medians are told. 5 or more to compare.
    csv_file
        Also write the figures as CSV, in ds4-bench's columns.
    plot
        Also draw them (.svg, .png); needs matplotlib.
    dump_frontier_logits_dir
        Folder for the logits after each context length, one JSON file each.
    """
    if ctx_max is not None:
        frontiers(ctx_start, ctx_max, step_incr, step_mul)
    prompt.check()
    files = [path for path in (csv_file, plot) if path is not None]
    for path in files:
        check_output(path)
    output.check()
    if plot is not None:
        check_plot(plot)
    _check_folder(dump_frontier_logits_dir)
    if model.context is not None and ctx_alloc is not None:
        raise UsageError("--ctx and --ctx-alloc are the same here: give one")
    model = over_cluster(model, cluster)
    loaded = open_for(model, ctx_max and ctx_max + gen_tokens + 1, ctx_alloc, "--ctx-max and --gen-tokens")
    ctx_max = ctx_max or max(ctx_start, min(DEFAULT_CTX_MAX, _room(loaded) - gen_tokens - 1))
    loaded = _with_room(loaded, ctx_max + gen_tokens + 1)
    for path in files:
        check_output(path, loaded.gguf.paths)
    output.check(loaded.gguf.paths)
    plan = Plan(
        frontiers=frontiers(ctx_start, ctx_max, step_incr, step_mul),
        decode_tokens=gen_tokens,
        chunk_tokens=loaded.chunk_tokens,
        ids=prompt.ids(loaded, ctx_max),
        end_id=end_of_answer(loaded.gguf),
        repeats=repeats,
        has_clock=cpu_kernels(loaded.transformer.ops) is not None
        and model.cluster is None
        and model.power == FULL_POWER_PERCENT,
    )
    report = _measure(loaded, plan, prompt.describe(), dump_frontier_logits_dir)
    if csv_file is not None:
        write_text(csv_file, csv_text(report.samples, repeats))
        told(csv_file)
    if plot is not None:
        title = f"{report.model.removesuffix('.gguf')} on {report.machine}"
        draw_speeds([speeds(sample) for sample in report.samples], Picture(plot, title))
        told(plot)
    output.finish(report.table(), report.document())


def _measure(loaded: LoadedModel, plan: Plan, prompt: str, logits_dir: Path | None) -> Report:
    ops, progress = measured_ops(loaded), ProgressLine()
    progress.show("measuring memory")
    size_bytes = SIZE_BYTES if loaded.streaming is None else SMALL_BYTES
    machine, before = measured_machine(read_machine().cpu, ops, size_bytes), loaded.expert_counts()
    path = loaded.gguf.paths[0]

    def show(done: int) -> None:
        progress.show(f"{done}/{plan.frontiers[-1]} tokens")

    def dump(context_tokens: int, logits: Logits) -> None:
        if logits_dir is not None:
            file = logits_dir / f"frontier_{context_tokens:06d}.logits.json"
            write_text(file, _logits_json(path.name, loaded, context_tokens, logits[0]))

    samples = list(measure(loaded.paced, plan, show, dump))
    peak_bytes, now = peak_beyond_files_bytes(), loaded.expert_counts()
    progress.clear()
    hp, tensors = loaded.transformer.config.hp, load_tensors(loaded.gguf)
    kernels = cpu_kernels(ops)
    return Report(
        path.name,
        prompt,
        hp,
        machine.at_its_best(measured_machine(machine.cpu, ops, size_bytes)),  # others may have been busy the first time
        layer_traffic(tensors, hp),
        samples,
        operations_per_token(tensors, hp),
        None if kernels is None else int8_peak(kernels),
        peak_bytes,
        {name: count - before[name] for name, count in now.items()} if now else None,
        None if loaded.streaming is None else loaded.streaming.document(),
    )


def _room(loaded: LoadedModel) -> int:
    """The most tokens of context there can be: those asked for, else all that the model has."""
    return loaded.settings.context or loaded.native_context


def _with_room(loaded: LoadedModel, needed: int) -> LoadedModel:
    """With the least context that is enough, or the one that was asked for."""
    asked = loaded.settings.context
    if asked is None and needed <= loaded.native_context:
        return loaded.with_context(needed)
    if needed > loaded.context_length:
        raise UsageError(
            f"--ctx-max, --gen-tokens and one more need {needed} tokens, the context has {loaded.context_length}: "
            "give smaller ones, or a larger --ctx-alloc if the model has it"
        )
    return loaded


def _check_folder(folder: Path | None) -> None:
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--dump-frontier-logits-dir {folder}: there is no such folder; make it first")


def _logits_json(model: str, loaded: LoadedModel, context_tokens: int, logits: Logits) -> str:
    """The fields of the original's --dump-logits (spec/product.md B.5)."""
    values = [float(f"{value:.9g}") if math.isfinite(value) else None for value in logits.tolist()]
    best = int(np.nanargmax(logits)) if np.isfinite(logits).any() else 0
    head = {
        "source": "whitedwarf bench",
        "model": model,
        "backend": loaded.transformer.ops.name,
        "prompt_tokens": context_tokens,
        "ctx": loaded.context_length,
        "vocab": len(values),
        "argmax_token": {"id": best},
        "argmax_logit": values[best],
    }
    return json.dumps(head | {"logits": values}) + "\n"
