"""What decode of several sequences gave, as a table for people and one JSON document for scripts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from whitedwarf.bench.batch import BatchPlan, BatchSample
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.traffic import LayerTraffic


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One run."""

    model: str
    machine: Machine
    traffic: LayerTraffic
    plan: BatchPlan
    samples: Sequence[BatchSample]

    def step_bytes(self, sample: BatchSample) -> float:
        """Weights that a step reads; rows of contexts are left out."""
        return self.traffic.batch_bytes(sample.distinct_experts)

    def of_limit(self, sample: BatchSample) -> float:
        """Share of the memory's speed."""
        return self.step_bytes(sample) / self.machine.read_bytes_per_s / sample.median_s

    def gain(self, sample: BatchSample) -> float:
        """Tokens a second over those of the fewest sequences."""
        return sample.tokens_per_s / self.samples[0].tokens_per_s

    def table(self) -> str:
        """For people."""
        lines = [
            f"{self.model} on {self.machine}, memory {self.machine.read_bytes_per_s / 1e9:.1f} GB/s, "
            f"depth {self.plan.depth}",
            f"{'sequences':>9} {'ms a step':>10} {'quartiles':>17} {'tokens/s':>9} {'times':>6} "
            f"{'experts':>8} {'GB':>6} {'limit':>6}",
        ]
        return "\n".join(lines + [self._row(sample) for sample in self.samples])

    def _row(self, sample: BatchSample) -> str:
        low, high = (seconds * 1e3 for seconds in sample.quartiles_s)
        return (
            f"{sample.sequences:>9} {sample.median_s * 1e3:>10.2f} {f'{low:.2f}-{high:.2f}':>17} "
            f"{sample.tokens_per_s:>9.1f} {self.gain(sample):>6.2f} {mean(sample.distinct_experts):>8.1f} "
            f"{self.step_bytes(sample) / 1e9:>6.2f} {self.of_limit(sample):>6.0%}"
        )

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "model": self.model,
            "machine": asdict(self.machine),
            "plan": asdict(self.plan),
            "samples": [
                {
                    "sequences": sample.sequences,
                    "step_median_s": sample.median_s,
                    "step_quartiles_s": sample.quartiles_s,
                    "tokens_per_s": sample.tokens_per_s,
                    "times_one": self.gain(sample),
                    "distinct_experts": sample.distinct_experts,
                    "step_bytes": self.step_bytes(sample),
                    "of_bandwidth_limit": self.of_limit(sample),
                }
                for sample in self.samples
            ],
        }
