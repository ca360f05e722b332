"""What `bench streaming` found, as a table for people and one JSON document for scripts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from whitedwarf.bench.counted import READ_BYTES
from whitedwarf.bench.pick_trace import HitRate
from whitedwarf.bench.spread import quartiles
from whitedwarf.bench.streaming_sides import Figure, Figures

GB, GIB = 1e9, 1 << 30


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second over all rounds."""

    median: float
    quartiles: tuple[float, float]
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Speed":
        return cls(median(values), quartiles(values), tuple(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One side at one job. Bytes are of one process at its most; None where nobody counts them."""

    side: str
    cold: Speed
    settled: Speed
    peak_bytes: int  # anonymous memory and page cache together
    peak_anonymous_bytes: int
    peak_file_bytes: int
    process_read_bytes: int | None  # all that a process read, loading included
    read_bytes_per_token: float | None  # by repetitions behind the first
    of_disk: float | None  # bytes read a second, over the disk's speed
    hit_rate: float | None
    read_of_touched: float | None  # bytes read over those of the experts that were needed
    planned_bytes: int | None

    @property
    def of_plan(self) -> float | None:
        """What was held at most, over what was planned."""
        return None if self.planned_bytes is None else self.peak_bytes / self.planned_bytes


def row(side: str, figures: Sequence[Figure], tokens: int, disk_bytes_per_s: float) -> Row:
    """Of one or more rounds."""
    rates = [rate for figure in figures for rate in figure.settled]
    counts = [one for figure in figures for one in figure.settled_counts]
    read = [one[READ_BYTES] for one in counts if READ_BYTES in one]
    per_token = median(read) / tokens if read else None
    loads = [figure.outside.read_bytes for figure in figures if figure.outside.read_bytes is not None]
    plans = [figure.document["streaming"] for figure in figures if figure.document and figure.document["streaming"]]
    return Row(
        side,
        Speed.of([figure.cold for figure in figures]),
        Speed.of(rates),
        max(figure.outside.peak.size_bytes for figure in figures),
        max(figure.outside.peak_anonymous_bytes for figure in figures),
        max(figure.outside.peak_file_bytes for figure in figures),
        max(loads) if loads else None,
        per_token,
        None if per_token is None else per_token * median(rates) / disk_bytes_per_s,
        _hit_rate(counts),
        _read_of_touched(counts, plans[-1] if plans else None),
        max(int(plan["planned_bytes"]) for plan in plans) if plans else None,
    )


@dataclass(frozen=True, slots=True)
class StreamingReport:
    """Everything one run of the instrument found out. The first side is plain mmap."""

    model: str
    size_bytes: int
    machine: Mapping[str, Any]
    limit_bytes: int
    disk_bytes_per_s: float
    tokens: Mapping[str, int]  # of each job
    figures: Figures
    failures: Mapping[str, str]
    hit_rates: Sequence[HitRate] = ()
    streaming: Mapping[str, Any] | None = None  # the plan, as the first process had it

    def rows(self, job: str) -> list[Row]:
        """All sides that could do it."""
        sides = self.figures[job].items()
        return [row(name, found, self.tokens[job], self.disk_bytes_per_s) for name, found in sides if found]

    def table(self) -> str:
        """For people."""
        return "\n".join(self._lines())

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "model": self.model,
            "size_bytes": self.size_bytes,
            "machine": dict(self.machine),
            "limit_bytes": self.limit_bytes,
            "disk_bytes_per_s": self.disk_bytes_per_s,
            "streaming": self.streaming,
            "streaming_jobs": {
                job: [asdict(one) | {"of_plan": one.of_plan} for one in self.rows(job)] for job in self.figures
            },
            "hit_rates": [asdict(rate) for rate in self.hit_rates],
            "failures": dict(self.failures),
        }

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.model}, {self.size_bytes / GIB:.2f} GiB, under a limit of {self.limit_bytes / GIB:.2f} GiB; the "
            f"disk reads {self.disk_bytes_per_s / GB:.2f} GB/s past the page cache"
        )
        for job in self.figures:
            rows = self.rows(job)
            yield ""
            yield f"{job} tokens"
            yield (
                f"{'':<22} {'cold t/s':>9} {'t/s':>9} {'quartiles':>15} {'of first':>9} {'MB/token':>9} {'of disk':>8} "
                f"{'hits':>6} {'of touched':>10} {'memory GiB':>11} {'cache GiB':>10} {'of plan':>8}"
            )
            yield from (_text(one, rows[0]) for one in rows)
        if self.hit_rates:
            yield ""
            yield (
                "hit rates by how many of all experts are kept: the same policy, played over the picks of a decode "
                "without each expert's first one"
            )
            yield "  ".join(f"{rate.share:.0%}: {rate.hit_rate:.1%}" for rate in self.hit_rates)
        yield from (f"{name}: left out, {why}" for name, why in self.failures.items())


def _text(one: Row, first: Row) -> str:
    low, high = one.settled.quartiles
    return (
        f"{one.side:<22} {one.cold.median:>9.3f} {one.settled.median:>9.3f} {f'{low:.3f}-{high:.3f}':>15} "
        f"{one.settled.median / first.settled.median:>8.2f}x {_shown(one.read_bytes_per_token, 1e6):>9} "
        f"{_percent(one.of_disk):>8} {_percent(one.hit_rate):>6} {_percent(one.read_of_touched):>10} "
        f"{one.peak_anonymous_bytes / GIB:>11.2f} {one.peak_file_bytes / GIB:>10.2f} {_percent(one.of_plan):>8}"
    )


def _shown(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.1f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _hit_rate(counts: Sequence[Mapping[str, float]]) -> float | None:
    needed = sum(one.get("experts_hits", 0) + one.get("experts_misses", 0) for one in counts)
    return sum(one.get("experts_hits", 0) for one in counts) / needed if needed else None


def _read_of_touched(counts: Sequence[Mapping[str, float]], plan: Mapping[str, Any] | None) -> float | None:
    """Where experts have several sizes they are taken for the mean one."""
    touched = [one["experts_hits"] + one["experts_misses"] for one in counts if "experts_hits" in one]
    read = [one["experts_read_bytes"] for one in counts if "experts_read_bytes" in one]
    if plan is None or not read or not sum(touched):
        return None
    expert_bytes = float(plan["experts_bytes"]) / float(plan["num_experts"])
    return mean(read) / (mean(touched) * expert_bytes)
