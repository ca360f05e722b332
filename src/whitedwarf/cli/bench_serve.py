"""`whitedwarf bench serve`: a real server under load, beside llama.cpp's in the same run."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.serve_client import Address
from whitedwarf.bench.serve_overhead import measure_overhead
from whitedwarf.bench.serve_process import peer_started, started
from whitedwarf.bench.serve_prompts import SPARE_TOKENS, Prose, measure_restore, measure_turns, measure_waiting
from whitedwarf.bench.serve_report import Parts, ServeReport
from whitedwarf.bench.serve_streams import CLIENTS, measure_streams
from whitedwarf.cli.loading import open_tokenizer
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import POSITIVE
from whitedwarf.engine.engine import DEFAULT_CHUNK_TOKENS
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.store import find_model

PARTS = ("overhead", "streams", "waiting", "restore", "turns")
WAITING_TOKENS = 20_000
LONG_TOKENS = 25_000
STREAMS_CONTEXT = 2048

Start = Callable[[int, int], AbstractContextManager[Address]]
"""Starts a server for so many streams at once, each with so much context."""


@dataclass(frozen=True, slots=True)
class _Plan:
    parts: tuple[str, ...]
    model: Path
    prose: Prose
    waiting_tokens: int
    long_tokens: int
    answer_tokens: int
    window_s: float
    repeats: int


def command(
    *,
    model: Annotated[str | None, Parameter(name=("--model", "-m"))] = None,
    only: Annotated[str, Parameter()] = ",".join(PARTS),
    tokens: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    answer_tokens: Annotated[int, Parameter(validator=POSITIVE)] = 4000,
    window_s: Annotated[float, Parameter(validator=Number(gt=0))] = 4.0,
    repeats: Annotated[int, Parameter(validator=POSITIVE)] = 5,
    peer: Annotated[Path | None, Parameter()] = None,
    peer_url: Annotated[str | None, Parameter()] = None,
) -> None:
    """Start `whitedwarf serve` and measure it from outside, over sockets.

    overhead: what a streamed token costs, with a script in place of a model. streams: tokens a second of 1, 2, 4 and 8
    clients together. waiting: a short request's first token while a long prompt is read. restore: a long prompt from
    disk after a restart. turns: the next turn of a long conversation. A table goes to standard output, and one JSON
    document as its last line.

    Parameters
    ----------
    model
        GGUF file, or any shard of one. Default: $WHITEDWARF_MODEL, else ./ds4flash.gguf, else the bundled nano.
    only
        Which of the parts, with commas between them.
    tokens
        Length of the long prompts. Default: 20000 for waiting, 25000 for restore and turns.
    answer_tokens
        Tokens of each answer that overhead streams.
    window_s
        Seconds of each repetition of streams.
    repeats
        Repetitions of each measurement, after a warm-up.
    peer
        A llama-server of llama.cpp: measured after us on the same file (streams, waiting, turns).
    peer_url
        A server that is running already and speaks Chat Completions, measured likewise.
    """
    running = None if peer_url is None else _address(peer_url)
    path = find_model(model).path
    with open_gguf(path) as gguf:
        tokenizer = open_tokenizer(gguf)
    plan = _Plan(
        parts=_parts(only),
        model=path,
        prose=Prose(lambda text: len(tokenizer.encode(text))),
        waiting_tokens=tokens or WAITING_TOKENS,
        long_tokens=tokens or LONG_TOKENS,
        answer_tokens=answer_tokens,
        window_s=window_s,
        repeats=repeats,
    )
    machine, load, progress = read_machine(), os.getloadavg()[0], ProgressLine()
    servers = [_ours(plan, progress)]
    if peer is not None:
        servers.append(_measured(plan, peer.name, progress, lambda n, context: _peer(peer, plan.model, n, context)))
    if peer_url is not None and running is not None:
        servers.append(_measured(plan, peer_url, progress, lambda n, context: nullcontext(running)))
    progress.clear()
    report = ServeReport(machine.cpu, machine.usable_threads, load, plan.model.name, repeats, servers)
    print(report.table())
    print(report.json_line())


def _parts(only: str) -> tuple[str, ...]:
    asked = tuple(filter(None, only.split(",")))
    if unknown := [part for part in asked if part not in PARTS] or ([] if asked else ["none"]):
        raise UsageError(f"--only: expected some of {', '.join(PARTS)}, with commas between; got {unknown[0]}")
    return asked


def _ours(plan: _Plan, progress: ProgressLine) -> Parts:
    flags = ["-m", str(plan.model)]

    @contextmanager
    def start(parallel: int, context: int) -> Iterator[Address]:
        with started([*flags, "--parallel", str(parallel), "--ctx", str(context)]) as server:
            yield Address("127.0.0.1", server.port)

    parts = Parts("whitedwarf")
    if "overhead" in plan.parts:
        progress.show("overhead")
        parts = replace(parts, overhead=tuple(measure_overhead(plan.answer_tokens, plan.repeats)))
    if "restore" in plan.parts:
        progress.show("restore")
        parts = replace(parts, restore=measure_restore(flags, plan.prose, plan.long_tokens, plan.repeats))
    prompts = _measured(plan, "whitedwarf", progress, start)
    return replace(parts, streams=prompts.streams, waiting=prompts.waiting, turns=prompts.turns)


def _measured(plan: _Plan, name: str, progress: ProgressLine, start: Start) -> Parts:
    """What can be asked of any server, each part of a new one."""
    parts = Parts(name)
    if "streams" in plan.parts:
        progress.show(f"{name}: streams")
        with start(CLIENTS[-1], STREAMS_CONTEXT) as address:
            parts = replace(parts, streams=measure_streams(address, plan.window_s, plan.repeats))
    if "waiting" in plan.parts:
        progress.show(f"{name}: waiting")
        with start(2, plan.waiting_tokens + 2 * SPARE_TOKENS) as address:
            waiting = measure_waiting(address, plan.prose, plan.waiting_tokens, plan.repeats, DEFAULT_CHUNK_TOKENS)
            parts = replace(parts, waiting=waiting)
    if "turns" in plan.parts:
        progress.show(f"{name}: turns")
        with start(1, plan.long_tokens + 2 * SPARE_TOKENS) as address:
            parts = replace(parts, turns=measure_turns(address, plan.prose, plan.long_tokens, plan.repeats))
    return parts


@contextmanager
def _peer(binary: Path, model: Path, parallel: int, context: int) -> Iterator[Address]:
    with peer_started(binary, model, parallel, context) as port:
        yield Address("127.0.0.1", port)


def _address(url: str) -> Address:
    parts = urlsplit(url if "//" in url else f"//{url}")
    try:
        host, port = parts.hostname, parts.port or 80
    except ValueError as error:
        raise UsageError(f"--peer-url {url}: {error}") from error
    if host is None or parts.scheme not in ("", "http"):
        raise UsageError(f"--peer-url: expected http://HOST:PORT, got {url}")
    return Address(host, port)
