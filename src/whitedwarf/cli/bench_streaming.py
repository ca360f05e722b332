"""`whitedwarf bench streaming`: a model larger than memory, streamed and mapped, under a limit that is set for both."""

import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.disk_speed import read_speed
from whitedwarf.bench.memory_group import dropped_from_cache, memory_group
from whitedwarf.bench.pick_trace import HitRate, hit_rates
from whitedwarf.bench.streaming_report import StreamingReport
from whitedwarf.bench.streaming_sides import COLD, STREAMED, Job, Place, Side, llama_side, measure_sides
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.bench_peers import check_binary
from whitedwarf.cli.machine import available_threads, read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.streaming_flags import gibibytes
from whitedwarf.config import DEFAULT_FILE, POSITIVE, FileSettings
from whitedwarf.errors import UsageError
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.store import find_model

SHARE = 4  # one part in so many of the file is the default limit
LEAST_LIMIT_BYTES = 1 << 28  # the interpreter with its libraries


def command(
    *,
    limit: str | None = None,
    decode: Annotated[int, Parameter(name=("--decode", "-n"), validator=Number(gte=0))] = 32,
    repeats: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 2,
    prefill: Annotated[int, Parameter(name=("--prefill", "-p"), validator=Number(gte=0))] = 0,
    rounds: Annotated[int, Parameter(validator=POSITIVE)] = 5,
    trace_tokens: Annotated[int, Parameter(validator=Number(gte=0))] = 96,
    cache_experts: str | None = None,
    prefill_chunk: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    llama_bench: Path | None = None,
    threads: Annotated[int | None, Parameter(name=("--threads", "-t"), validator=Number(gte=1, lte=1024))] = None,
    output: OutputSettings = DEFAULT_OUTPUT,
    file: FileSettings = DEFAULT_FILE,
) -> None:
    """Measure the file mapped, and with --ssd-streaming cold and warm, in turns under one memory limit.

    Each figure is of a process of its own in a new control group, after the page cache has forgotten the file; memory
    and bytes read are counted from outside. Needs Linux and the right to make control groups. A table goes to standard
    output, and one JSON document as its last line.

    Parameters
    ----------
    limit
        Memory for each process with its page cache, such as 3GB (of 1024 MiB). Default: a quarter of the file.
    decode
        Tokens to decode; 0 for none.
    repeats
        How often, in one process: the first is cold, the others find what it left.
    prefill
        Length of a prompt to read; 0 for none.
    rounds
        How many processes each median is of.
    trace_tokens
        Tokens whose experts are written down for the table of hit rates, before the rounds; 0 for none. What is warm
        begins with the experts that were used most there.
    cache_experts
        As --ssd-streaming-cache-experts.
    prefill_chunk
        Our prompt tokens per forward pass.
    llama_bench
        A llama-bench of llama.cpp, measured with the file mapped.
    threads
        Of all. Default: one for each core that this process may use.
    """
    jobs = [Job(decode, repeats)] if decode else []
    jobs += [Job(prompt_tokens=prefill)] if prefill else []
    if not jobs:
        raise UsageError("nothing to measure: give a number of tokens with -n or -p")
    if sys.platform != "linux":
        raise UsageError("bench streaming sets memory limits with Linux's control groups; this is another system")
    check_binary(llama_bench)
    path = find_model(file.model).path
    output.check([path])
    with open_gguf(path) as gguf:
        paths, size_bytes = tuple(gguf.paths), sum(gguf.shard_bytes)
        num_experts = from_metadata(gguf.metadata, gguf.tensors).num_experts
    limit_bytes = size_bytes // SHARE if limit is None else gibibytes("--limit", limit)
    if limit_bytes < LEAST_LIMIT_BYTES:
        raise UsageError(f"--limit: {limit_bytes >> 20} MiB hold no program; give more, such as --limit 0.5GB")
    name = f"whitedwarf-bench-{os.getpid()}"
    with memory_group(name, limit_bytes):
        pass  # better refused now
    progress = ProgressLine()
    progress.show("measuring the disk")
    dropped_from_cache(paths)
    disk_bytes_per_s = read_speed(paths[0])
    chunk = () if prefill_chunk is None else ("--prefill-chunk", str(prefill_chunk))
    kept = chunk if cache_experts is None else ("--ssd-streaming-cache-experts", cache_experts, *chunk)
    sides = [Side("mmap", chunk), Side("streaming, cold", (*COLD, *kept)), Side("streaming, warm", (*STREAMED, *kept))]
    sides += [llama_side(llama_bench)] if llama_bench is not None else []
    with tempfile.TemporaryDirectory(prefix="whitedwarf-bench-") as folder:
        place = Place(paths, threads or available_threads(), limit_bytes, Path(folder), name)
        rates, plan = _traced(place, Side("trace", (*COLD, *kept)), trace_tokens, num_experts, progress)
        figures = measure_sides(place, sides, jobs, rounds, progress.show)
    dropped_from_cache(paths)
    disk_bytes_per_s = max(disk_bytes_per_s, read_speed(paths[0]))  # others may have been busy the first time
    progress.clear()
    report = StreamingReport(
        path.name,
        size_bytes,
        {**asdict(read_machine()), "threads": place.threads},
        limit_bytes,
        disk_bytes_per_s,
        {job.name: job.decode_tokens or job.prompt_tokens for job in jobs},
        figures,
        place.failures,
        rates,
        plan,
    )
    output.finish(report.table(), report.document())


def _traced(
    place: Place, side: Side, tokens: int, num_experts: int, progress: ProgressLine
) -> tuple[list[HitRate], dict[str, Any] | None]:
    """Hit rates of a run before the rounds, which also leaves a profile of experts, and the plan that it had."""
    if not tokens:
        return [], None
    progress.show(f"writing down the experts of {tokens} tokens")
    file = place.cache_folder / "picks.npy"
    figure = place.figure(side, Job(tokens), 1, ("--picks", str(file)))
    assert figure.document is not None
    return hit_rates(np.load(file, allow_pickle=False), num_experts), figure.document["streaming"]
