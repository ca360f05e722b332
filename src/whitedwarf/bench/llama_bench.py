"""llama.cpp's llama-bench as the other side: at its best.

What suits it depends on the file and the machine: every micro-batch, with and without repacked weights, is tried once
at depth 0, and each point is then measured with what was fastest there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from whitedwarf.bench.peers import Progress, output_of, point_flags, read_rates
from whitedwarf.bench.points import Point, Rates
from whitedwarf.errors import WhitedwarfError

QUIET = {"GGML_NO_BACKTRACE": "1"}  # where it fails, its own words are the last ones


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run it. `repack` None: the binary has no such choice."""

    micro_batch: int
    repack: bool | None

    def flags(self) -> list[str]:
        flags = ["-ub", str(self.micro_batch), "-b", str(max(self.micro_batch, 2048))]
        return flags if self.repack is None else [*flags, "--repack", str(int(self.repack))]

    def __str__(self) -> str:
        return f"ub {self.micro_batch}" + ("" if self.repack is None else f", repack {int(self.repack)}")


@dataclass(slots=True)
class LlamaBench:
    """`best` is filled by `prepare`; `tried` and `failed` remember what became of every variant there."""

    binary: Path
    model: Path
    threads: int
    micro_batches: Sequence[int] = (512, 2048)
    repacks: Sequence[bool] = (False, True)
    best: dict[Point, Variant] = field(default_factory=dict)
    tried: dict[Point, dict[str, float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # settings that ended it, with its last words

    @property
    def name(self) -> str:
        return self.binary.name

    def prepare(self, asked: Sequence[Point], progress: Progress) -> None:
        can_repack = "--repack" in output_of([str(self.binary), "--help"])
        repacks: Sequence[bool | None] = self.repacks if can_repack else (None,)
        for repack, micro_batch in product(repacks, self.micro_batches):
            variant = Variant(micro_batch, repack)
            if suited := [point for point in asked if self._is_new(point, micro_batch)]:
                progress(f"{self.name}: trying {variant}")
                self._try(suited, variant)
        if any(point not in self.best for point in asked):
            raise WhitedwarfError(next(iter(self.failed.values())))

    def _is_new(self, point: Point, micro_batch: int) -> bool:
        """Whether this micro-batch does anything for the point that a smaller one of ours would not."""
        smaller = [size for size in self.micro_batches if size < micro_batch]
        return not smaller or (point.kind == "prefill" and max(smaller) < point.tokens)

    def _try(self, asked: Sequence[Point], variant: Variant) -> None:
        try:
            found = self._run(asked, variant, 1)
        except WhitedwarfError as error:
            self.failed[str(variant)] = str(error)
            return
        for rates in found:
            tried, rate = self.tried.setdefault(rates.point, {}), rates.tokens_per_s[0]
            if rate > max(tried.values(), default=0.0):
                self.best[rates.point] = variant
            tried[str(variant)] = rate

    def measure(self, asked: Sequence[Point], repeats: int) -> Sequence[Rates]:
        found: list[Rates] = []
        for variant in dict.fromkeys(self.best[point.at_start] for point in asked):
            found += self._run([p for p in asked if self.best[p.at_start] == variant], variant, repeats)
        return found

    def settings(self, point: Point) -> str:
        return str(self.best[point.at_start])

    def _run(self, asked: Sequence[Point], variant: Variant, repeats: int) -> list[Rates]:
        command = [str(self.binary), "-m", str(self.model), "-t", str(self.threads), *point_flags(asked)]
        answer = output_of([*command, "-r", str(repeats), *variant.flags(), "-o", "json"], QUIET)
        try:
            found = [read_rates(test) for test in json.loads(answer)]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WhitedwarfError(f"{self.binary} did not answer like llama-bench -o json ({error})") from error
        if missing := [point.name for point in asked if point not in {rates.point for rates in found}]:
            raise WhitedwarfError(f"{self.binary} did not measure {missing[0]}: is it a llama-bench that has -d?")
        return found
