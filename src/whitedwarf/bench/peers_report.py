"""What a comparison found out, as a table for people and one JSON document for scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from whitedwarf.bench.machine import Machine
from whitedwarf.bench.peers import Comparison, Side
from whitedwarf.bench.points import Point
from whitedwarf.bench.spread import quartiles


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine could do with this file at most."""

    machine: Machine
    bytes_per_token: int
    operations_per_token: int  # prefill, of weights
    int8_ops_per_s: float | None = None  # measured, all threads

    def rate(self, point: Point) -> float | None:
        """Tokens per second where only memory (decode) or int8 arithmetic (prefill) takes time; None: not known."""
        if point.kind == "decode":
            return self.machine.read_bytes_per_s / self.bytes_per_token
        return None if self.int8_ops_per_s is None else self.int8_ops_per_s / self.operations_per_token


@dataclass(frozen=True, slots=True)
class PeersReport:
    """One run."""

    model: str
    limits: Limits
    ours: Side
    theirs: Side
    found: Comparison
    tried: Mapping[Point, Mapping[str, float]]  # what each setting of the peer gave, once
    failed: Mapping[str, str]  # settings with which the peer ended, and its last words

    def table(self) -> str:
        """For people."""
        ours, theirs = self.ours.name, self.theirs.name
        memory, load = self.limits.machine.read_bytes_per_s / 1e9, self.limits.machine.load
        lines = [
            f"{self.model} on {self.limits.machine}, load {load:.1f}, memory {memory:.1f} GB/s",
            "medians of tokens/s (quartiles), ratio of medians; limit: memory for tg, int8 arithmetic for pp",
            f"{'':>12} {ours:>26} {'limit':>6} {theirs:>26} {'limit':>6} {'ratio':>6}",
        ]
        lines += [self._row(point) for point in self.found.asked]
        return "\n".join(lines + [f"not with {settings}: {words}" for settings, words in self.failed.items()])

    def _row(self, point: Point) -> str:
        ours, theirs = self.found.ours.get(point, []), self.found.theirs.get(point, [])
        ratio = f"{median(ours) / median(theirs):>6.2f}" if ours and theirs else f"{'-':>6}"
        cells = f"{self._cell(point, ours)} {self._cell(point, theirs)} {ratio}"
        return f"{point.name:>12} {cells} {self.theirs.settings(point) if theirs else ''}".rstrip()

    def _cell(self, point: Point, rates: Sequence[float]) -> str:
        if not rates:
            return f"{'not measured':>26} {'-':>6}"
        low, high = quartiles(rates)
        limit = self.limits.rate(point)
        share = f"{median(rates) / limit:>6.0%}" if limit else f"{'-':>6}"
        return f"{f'{median(rates):.2f} ({low:.2f}-{high:.2f})':>26} {share}"

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "model": self.model,
            "machine": asdict(self.limits.machine),
            "bytes_per_token": self.limits.bytes_per_token,
            "operations_per_token": self.limits.operations_per_token,
            "int8_ops_per_s": self.limits.int8_ops_per_s,
            "ours": self.ours.name,
            "theirs": self.theirs.name,
            "points": [self._point(point) for point in self.found.asked],
            "tried": {point.name: dict(rates) for point, rates in self.tried.items()},
            "failed": dict(self.failed),
        }

    def _point(self, point: Point) -> dict[str, object]:
        ours, theirs = self.found.ours.get(point, []), self.found.theirs.get(point, [])
        limit = self.limits.rate(point)
        return {
            "name": point.name,
            **asdict(point),
            "limit_tokens_per_s": limit,
            "ours": _figures(ours, limit),
            "theirs": _figures(theirs, limit),
            "settings": self.theirs.settings(point) if theirs else "",
            "ratio": median(ours) / median(theirs) if ours and theirs else None,
        }


def _figures(rates: Sequence[float], limit: float | None) -> dict[str, object] | None:
    if not rates:
        return None
    middle = median(rates)
    return {
        "tokens_per_s": middle,
        "quartiles": quartiles(rates),
        "samples": list(rates),
        "of_limit": middle / limit if limit else None,
    }
