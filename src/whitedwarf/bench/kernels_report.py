"""What the kernels gave beside the machine's limits: a table for people, one JSON document for scripts, bars."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from whitedwarf.bench.kernels import KernelSample
from whitedwarf.bench.limits import Peak, peak_of
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.plot import Bar


@dataclass(frozen=True, slots=True)
class KernelsReport:
    """One run."""

    machine: Machine
    peaks: Sequence[Peak]
    samples: Sequence[KernelSample]

    def limit_s(self, sample: KernelSample) -> tuple[float, str]:
        """Seconds that memory or arithmetic takes at least, and which of both binds; memory where no peak is known."""
        read_s = sample.bytes_read / self.machine.read_bytes_per_s
        peak = peak_of(self.peaks, sample.level, sample.arithmetic)
        computed_s = sample.operations / peak if peak else 0.0
        if computed_s > read_s or (sample.is_cached and peak):
            return computed_s, sample.arithmetic
        return read_s, "memory"

    def of_limit(self, sample: KernelSample) -> float:
        """Share of the limit that binds."""
        return self.limit_s(sample)[0] / sample.median_s

    def table(self) -> str:
        """For people."""
        peaks = ", ".join(f"{p.level} {p.arithmetic} {p.ops_per_s / 1e9:.0f}" for p in self.peaks)
        lines = [
            f"{self.machine.cpu}, {self.machine.threads} threads, load {self.machine.load:.1f}; "
            f"memory {self.machine.read_bytes_per_s / 1e9:.1f} GB/s; Gop/s in registers: {peaks}",
            f"{'kernel':>24} {'rows':>5} {'level':>7} {'ms':>10} {'quartiles':>19} {'GB/s':>7} {'Gop/s':>8} "
            f"{'limit':>6} binds",
        ]
        return "\n".join(lines + [self._row(sample) for sample in self.samples])

    def _row(self, sample: KernelSample) -> str:
        low, high = (seconds * 1e3 for seconds in sample.quartiles_s)
        middle, binds = sample.median_s, self.limit_s(sample)[1]
        return (
            f"{f'{sample.part} {sample.name}':>24} {sample.rows:>5} {sample.level:>7} {middle * 1e3:>10.3f} "
            f"{f'{low:.3f}-{high:.3f}':>19} {sample.bytes_read / middle / 1e9:>7.1f} "
            f"{sample.operations / middle / 1e9:>8.1f} {self.of_limit(sample):>6.0%} {binds}"
        )

    def bars(self) -> list[Bar]:
        """A bar for each kernel and number of rows, a series for each level."""
        shares: dict[str, dict[str, float]] = {}
        for sample in self.samples:
            name = f"{sample.part} {sample.name}, {sample.rows} rows"
            shares.setdefault(name, {})[sample.level] = self.of_limit(sample)
        return [Bar(name, found) for name, found in shares.items()]

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "machine": asdict(self.machine),
            "peaks": [asdict(peak) for peak in self.peaks],
            "samples": [self._sample(sample) for sample in self.samples],
        }

    def _sample(self, sample: KernelSample) -> dict[str, object]:
        limit_s, binds = self.limit_s(sample)
        return {
            "part": sample.part,
            "name": sample.name,
            "rows": sample.rows,
            "level": sample.level,
            "median_s": sample.median_s,
            "quartiles_s": sample.quartiles_s,
            "repeats": len(sample.seconds),
            "bytes_per_s": sample.bytes_read / sample.median_s,
            "ops_per_s": sample.operations / sample.median_s,
            "limit_s": limit_s,
            "binds": binds,
            "of_limit": self.of_limit(sample),
        }
