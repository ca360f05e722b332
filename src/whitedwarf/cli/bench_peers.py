"""`whitedwarf bench peers`: llama.cpp on the same file in the same run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.limits import int8_peak
from whitedwarf.bench.llama_bench import LlamaBench
from whitedwarf.bench.llama_server import LlamaServer, started_server
from whitedwarf.bench.machine import measured_machine
from whitedwarf.bench.peers import Ours, Side, compare
from whitedwarf.bench.peers_report import Limits, PeersReport
from whitedwarf.bench.points import Point
from whitedwarf.bench.traffic import operations_per_token, traffic_per_token
from whitedwarf.cli.bench_flags import POINT_DEPTHS, asked_points, numbers
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.loading import note
from whitedwarf.cli.machine import available_threads, read_machine, read_memory
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_FILE, POSITIVE, FileSettings
from whitedwarf.engine.memory import size_text
from whitedwarf.errors import UsageError
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import find_model, load_tensors


def command(
    *,
    llama_bench: Path | None = None,
    llama_server: Path | None = None,
    url: str | None = None,
    prefill: Annotated[str, Parameter(name=("--prefill", "-p"))] = "512,2048",
    decode: Annotated[str, Parameter(name=("--decode", "-n"))] = "64",
    depths: Annotated[str, Parameter(name=("--depths", "-d"))] = POINT_DEPTHS,
    rounds: Annotated[int, Parameter(validator=POSITIVE)] = 5,
    micro_batches: str = "512,2048",
    repack: Annotated[str, Parameter()] = "both",
    prefill_chunk: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    threads: Annotated[int | None, Parameter(name=("--threads", "-t"), validator=Number(gte=1, lte=1024))] = None,
    output: OutputSettings = DEFAULT_OUTPUT,
    file: FileSettings = DEFAULT_FILE,
) -> None:
    """Measure us and a peer in turns: ours, theirs, ours, theirs ..., each in a process of its own.

    The peer's settings are tried first, and the fastest is used at each point. At depths beyond 0 each side is
    measured several times in one process, because reading so far takes long. A table goes to standard output, and one
    JSON document as its last line.

    Parameters
    ----------
    llama_bench
        A llama-bench of llama.cpp.
    llama_server
        A llama-server of llama.cpp, which is started on the same file.
    url
        A llama-server that is running already with the same file.
    prefill
        Prompt lengths, with commas between; 0 for none.
    decode
        Numbers of tokens to decode, with commas between; 0 for none.
    depths
        Tokens that are there already, with commas between.
    rounds
        How many figures each median is of.
    micro_batches
        Sizes of llama-bench's micro-batch to try.
    repack
        Whether llama-bench copies weights into another order: 0, 1 or both.
    prefill_chunk
        Our prompt tokens per forward pass.
    threads
        Of both. Default: one for each core that this process may use.
    """
    asked = asked_points(prefill, decode, depths)
    sizes = numbers("--micro-batches", micro_batches)
    repacks = _repacks(repack)
    if sum(peer is not None for peer in (llama_bench, llama_server, url)) != 1:
        raise UsageError("expected one peer: give --llama-bench PATH, --llama-server PATH or --url http://HOST:PORT")
    for binary in (llama_bench, llama_server):
        check_binary(binary)
    path = find_model(file.model).path
    output.check([path])
    with open_gguf(path) as gguf:
        hp, tensors, size_bytes = from_metadata(gguf.metadata, gguf.tensors), load_tensors(gguf), sum(gguf.shard_bytes)
        traffic, operations = traffic_per_token(tensors, hp), operations_per_token(tensors, hp)
        del tensors
    _check_depths(asked, hp)
    _warn_of_memory(size_bytes)
    num_threads, progress = threads or available_threads(), ProgressLine()
    progress.show("measuring memory")
    ops = CpuOps(num_threads)
    cpu = read_machine().cpu
    machine = measured_machine(cpu, ops)
    chunk_flags = () if prefill_chunk is None else ("--prefill-chunk", str(prefill_chunk))
    ours = Ours(path, num_threads, chunk_flags)
    with _peer(llama_bench, llama_server, url, path, num_threads, asked, hp.vocab_size) as theirs:
        if isinstance(theirs, LlamaBench):
            theirs = replace(theirs, micro_batches=sizes, repacks=repacks)
        found = compare(ours, theirs, asked, rounds, progress.show)
        progress.clear()
        best = machine.at_its_best(measured_machine(cpu, ops))  # others may have been busy the first time
        limits = Limits(best, traffic.total_bytes, operations, int8_peak(ops.kernels))
        tried, failed = (theirs.tried, theirs.failed) if isinstance(theirs, LlamaBench) else ({}, {})
        report = PeersReport(path.name, limits, ours, theirs, found, tried, failed)
        output.finish(report.table(), report.document())


@contextmanager
def _peer(
    bench: Path | None,
    server: Path | None,
    url: str | None,
    model: Path,
    threads: int,
    asked: tuple[Point, ...],
    vocab_size: int,
) -> Iterator[Side]:
    if bench is not None:
        yield LlamaBench(bench, model, threads)
    elif server is not None:
        with started_server(server, model, threads, asked, vocab_size) as running:
            yield running
    elif url is not None:
        yield LlamaServer((url if "//" in url else f"http://{url}").rstrip("/"), vocab_size, url)


def _repacks(text: str) -> tuple[bool, ...]:
    known = {"0": (False,), "1": (True,), "both": (False, True)}
    if text not in known:
        raise UsageError(f"--repack {text}: expected 0, 1 or both")
    return known[text]


def check_binary(path: Path | None) -> None:
    """UsageError for what is no program."""
    if path is not None and not (path.is_file() and os.access(path, os.X_OK)):
        raise UsageError(f"{path}: expected a program of llama.cpp that may be run; there is none")


def _check_depths(asked: tuple[Point, ...], hp: Hyperparameters) -> None:
    needed = max(point.end for point in asked) + 1
    if needed > hp.context_length:
        raise UsageError(f"these lengths need {needed} tokens, this model has a context of {hp.context_length}")


def _warn_of_memory(size_bytes: int) -> None:
    total_bytes = read_memory().total_bytes
    if 2 * size_bytes > total_bytes:
        note(
            f"the file has {size_text(size_bytes)}, memory {size_text(total_bytes)}: a peer that copies weights "
            "(--repack 1) may push the file out of memory, and both then measure the disk"
        )
