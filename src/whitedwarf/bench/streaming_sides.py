"""The programs that `bench streaming` compares on one file under one memory limit, and one figure after another.

Every figure is of a process of its own, in a new group, after the page cache has forgotten the file: none finds what
another has read. Within a process the first repetition is cold; those behind it find what it left. Ids are random, and
others in every round. The sides are taken in turns.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whitedwarf.bench.memory_group import dropped_from_cache, memory_group
from whitedwarf.bench.peers import output_of
from whitedwarf.bench.watched_process import Watched, run_watched
from whitedwarf.errors import WhitedwarfError

STREAMED = ("--ssd-streaming",)
COLD = ("--ssd-streaming", "--ssd-streaming-cold")
_FIRST_SEED = 1000  # of the rounds; the run before them has another
_QUIET = {"GGML_NO_BACKTRACE": "1"}


@dataclass(frozen=True, slots=True)
class Job:
    """What each process does: decode tokens so many times, or read a prompt once."""

    decode_tokens: int = 0
    repeats: int = 1
    prompt_tokens: int = 0

    @property
    def name(self) -> str:
        return f"decode {self.decode_tokens}" if self.decode_tokens else f"prefill {self.prompt_tokens}"

    @property
    def flags(self) -> list[str]:
        """llama-bench's, which ours are too."""
        return ["-p", str(self.prompt_tokens), "-n", str(self.decode_tokens), "-d", "0", "-r", str(self.repeats)]


@dataclass(frozen=True, slots=True)
class Side:
    """One program and how it is run: ours with these flags, or a llama-bench."""

    name: str
    flags: tuple[str, ...] = ()
    llama_bench: Path | None = None
    of_prompts: tuple[str, ...] = ()  # further flags where a prompt is read

    def command(self, model: Path, threads: int, job: Job, seed: int) -> list[str]:
        """The whole command line."""
        flags = (*self.flags, *self.of_prompts) if job.prompt_tokens else self.flags
        common = ["-m", str(model), "-t", str(threads), *job.flags, *flags]
        if self.llama_bench is not None:
            return [str(self.llama_bench), *common, "-o", "json"]
        ours = [sys.executable, "-m", "whitedwarf", "bench", "points", *common]
        return [*ours, "--seed", str(seed), "--no-warm-up"]


def llama_side(binary: Path) -> Side:
    """llama-bench with the file mapped, its weights where they lie in it, and no pass before, whatever its version.

    Long pieces of a prompt read the file less often; their buffers would only take memory from a decode.
    """
    known, flags = output_of([str(binary), "--help"], _QUIET), list[str]()
    if "--load-mode" in known:
        flags += ["--load-mode", "mmap"]
    elif "--mmap" in known:
        flags += ["--mmap", "1"]
    if "--repack" in known:
        flags += ["--repack", "0"]  # a second copy would not fit
    if "--no-warmup" in known:
        flags += ["--no-warmup"]
    return Side(binary.name, tuple(flags), binary, ("-ub", "2048", "-b", "2048"))


@dataclass(frozen=True, slots=True)
class Figure:
    """One process: tokens per second of each repetition, what it counted itself, and what was seen from outside."""

    tokens_per_s: tuple[float, ...]
    counted: tuple[dict[str, float], ...]
    outside: Watched
    document: dict[str, Any] | None = None  # of our own

    @property
    def cold(self) -> float:
        """Of the first repetition."""
        return self.tokens_per_s[0]

    @property
    def settled(self) -> tuple[float, ...]:
        """Of those behind it; the first where there is no other."""
        return self.tokens_per_s[1:] or self.tokens_per_s

    @property
    def settled_counts(self) -> tuple[dict[str, float], ...]:
        """What was counted in them."""
        return self.counted[1:] or self.counted


@dataclass(slots=True)
class Place:
    """Where all of it runs: a model's files, threads, a limit, and a folder for profiles of experts."""

    paths: Sequence[Path]
    threads: int
    limit_bytes: int
    cache_folder: Path
    group_name: str
    failures: dict[str, str] = field(default_factory=dict)  # of sides that could not, with their last words

    def figure(self, side: Side, job: Job, seed: int, more: Sequence[str] = ()) -> Figure:
        """One process of this side. WhitedwarfError where it fails."""
        dropped_from_cache(self.paths)
        command = [*side.command(self.paths[0], self.threads, job, seed), *more]
        environment = {"XDG_CACHE_HOME": str(self.cache_folder), **_QUIET}
        with memory_group(self.group_name, self.limit_bytes) as group:
            outside = run_watched(group, command, environment)
        try:
            return read_figure(side, outside)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise WhitedwarfError(f"{side.name} did not answer as `bench points` or llama-bench does") from error


def read_figure(side: Side, outside: Watched) -> Figure:
    """What a process has printed, as a figure."""
    if side.llama_bench is not None:
        test = json.loads(outside.output)[0]
        return Figure(tuple(map(float, test["samples_ts"])), (), outside)
    document = json.loads(outside.output.splitlines()[-1])
    test = document["tests"][0]
    return Figure(tuple(map(float, test["samples_ts"])), tuple(test.get("counted", ())), outside, document)


Figures = dict[str, dict[str, list[Figure]]]  # job -> side -> one for each round


def measure_sides(
    place: Place, sides: Sequence[Side], jobs: Sequence[Job], rounds: int, progress: Callable[[str], None]
) -> Figures:
    """Every side does every job once a round, in turns; a side that fails is left out from then on."""
    found: Figures = {job.name: {side.name: [] for side in sides} for job in jobs}
    for number in range(rounds):
        for job in jobs:
            for side in sides:
                if side.name in place.failures:
                    continue
                progress(f"round {number + 1} of {rounds}: {job.name}, {side.name}")
                try:
                    found[job.name][side.name].append(place.figure(side, job, _FIRST_SEED + number))
                except WhitedwarfError as error:
                    place.failures[side.name] = str(error)
    return found
