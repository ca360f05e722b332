"""Another program on the same file in the same run, turn by turn with ours.

Our side runs in a process of its own, as the peer does: only one of both holds memory beside the file's pages, which
both find in the page cache. Each round measures ours, then theirs; at depths beyond 0, whose long beginning costs
minutes, one round measures ours, theirs and ours again, each several times.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from whitedwarf.bench.points import Point, Rates
from whitedwarf.errors import WhitedwarfError

Progress = Callable[[str], None]


class Side(Protocol):
    """One of the two that are compared."""

    @property
    def name(self) -> str: ...

    def prepare(self, asked: Sequence[Point], progress: Progress) -> None:
        """Whatever has to be found out first."""

    def measure(self, asked: Sequence[Point], repeats: int) -> Sequence[Rates]:
        """All of these points in one go; one that it cannot measure is left out."""

    def settings(self, point: Point) -> str:
        """How it is run at this point, for the report; empty where there is no choice."""


@dataclass(frozen=True, slots=True)
class Ours:
    """`whitedwarf bench points` in a process of its own."""

    model: Path
    threads: int
    flags: tuple[str, ...] = ()
    name: str = "whitedwarf"

    def prepare(self, asked: Sequence[Point], progress: Progress) -> None:
        """Nothing."""

    def measure(self, asked: Sequence[Point], repeats: int) -> Sequence[Rates]:
        command = [sys.executable, "-m", "whitedwarf", "bench", "points", "-m", str(self.model)]
        command += ["-t", str(self.threads), *point_flags(asked), "-r", str(repeats), *self.flags]
        document = json.loads(output_of(command).splitlines()[-1])
        return [read_rates(test) for test in document["tests"]]

    def settings(self, point: Point) -> str:
        return ""


@dataclass(slots=True)
class Comparison:
    """All that was measured of both sides, by point."""

    asked: Sequence[Point]
    ours: dict[Point, list[float]] = field(default_factory=dict)
    theirs: dict[Point, list[float]] = field(default_factory=dict)

    def add(self, found: dict[Point, list[float]], rates: Sequence[Rates]) -> None:
        for one in rates:
            found.setdefault(one.point, []).extend(one.tokens_per_s)


def compare(ours: Side, theirs: Side, asked: Sequence[Point], rounds: int, progress: Progress) -> Comparison:
    """`rounds` figures of each side at each point, or more."""
    found = Comparison(asked)
    theirs.prepare([point for point in asked if point.depth == 0] or [point.at_start for point in asked], progress)
    if shallow := [point for point in asked if point.depth == 0]:
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}: {ours.name}")
            found.add(found.ours, ours.measure(shallow, 1))
            progress(f"round {number + 1} of {rounds}: {theirs.name}")
            found.add(found.theirs, theirs.measure(shallow, 1))
    for depth in sorted({point.depth for point in asked} - {0}):
        deep = [point for point in asked if point.depth == depth]
        for side, into, repeats in _deep_turns(ours, theirs, found, rounds):
            progress(f"depth {depth}: {side.name}, {repeats} times")
            found.add(into, side.measure(deep, repeats))
    return found


def _deep_turns(
    ours: Side, theirs: Side, found: Comparison, rounds: int
) -> Iterator[tuple[Side, dict[Point, list[float]], int]]:
    half = -(-rounds // 2)
    yield ours, found.ours, half
    yield theirs, found.theirs, rounds
    yield ours, found.ours, half


def point_flags(asked: Sequence[Point]) -> list[str]:
    """-p, -n and -d of llama-bench, and of ours. All combinations of what these points have."""
    flags = []
    for flag, kind in (("-p", "prefill"), ("-n", "decode")):
        tokens = sorted({point.tokens for point in asked if point.kind == kind})
        flags += [flag, ",".join(map(str, tokens or [0]))]
    return [*flags, "-d", ",".join(map(str, sorted({point.depth for point in asked})))]


def read_rates(test: Mapping[str, object]) -> Rates:
    """One test of llama-bench -o json, or of ours."""
    prompt, generated, depth = (int(str(test.get(key, 0))) for key in ("n_prompt", "n_gen", "n_depth"))
    samples = test.get("samples_ts") or [test["avg_ts"]]
    if not isinstance(samples, list):
        raise TypeError("samples_ts is no list")
    point = Point(depth, "prefill", prompt) if prompt else Point(depth, "decode", generated)
    return Rates(point, tuple(float(sample) for sample in samples))


def output_of(command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """Standard output of a program run to its end; WhitedwarfError with its last words when it fails."""
    try:
        settings = {**os.environ, **environment}
        done = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace", env=settings)
    except (OSError, subprocess.CalledProcessError) as error:
        words = (getattr(error, "stderr", None) or "").strip() or str(error)
        raise WhitedwarfError(f"{command[0]} failed: {words.splitlines()[-1]}") from error
    return done.stdout
