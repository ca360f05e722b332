"""Turns samples into a table for people and one JSON line for scripts."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from whitedwarf.bench.peer import PeerResult
from whitedwarf.bench.speed import Sample
from whitedwarf.bench.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the figures were measured."""

    cpu: str
    threads: int
    level: str
    read_bytes_per_s: float  # measured, all threads


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run of the instrument found out."""

    model: str
    machine: Machine
    traffic: Traffic
    samples: Sequence[Sample]
    peer: Sequence[PeerResult]

    @property
    def limit_s(self) -> float:
        """Seconds per token if memory were the only cost."""
        return self.traffic.total_bytes / self.machine.read_bytes_per_s

    def table(self) -> str:
        """For people."""
        machine, gb = self.machine, 1e9
        lines = [
            f"{self.model} on {machine.cpu}, {machine.threads} threads, {machine.level}",
            f"weights per token {self.traffic.total_bytes / gb:.2f} GB (dense {self.traffic.dense_bytes / gb:.2f}, "
            f"experts {self.traffic.expert_bytes / gb:.2f}); memory {machine.read_bytes_per_s / gb:.1f} GB/s; "
            f"limit {self.limit_s * 1e3:.1f} ms per token",
            f"{'context':>8} {'prefill t/s':>12} {'decode ms':>10} {'quartiles':>15} {'decode t/s':>11} {'limit':>8}",
        ]
        lines += [self._row(sample) for sample in self.samples]
        lines += [f"llama-bench {p.name:>8} {p.tokens_per_s:8.2f} ± {p.deviation:.2f} t/s" for p in self.peer]
        return "\n".join(lines)

    def _row(self, sample: Sample) -> str:
        low, high = sample.decode_quartiles_s
        middle = sample.decode_median_s
        return (
            f"{sample.context_tokens:>8} {sample.prefill_tokens_per_s:>12.1f} {middle * 1e3:>10.2f} "
            f"{low * 1e3:>7.2f}-{high * 1e3:<7.2f} {1 / middle:>11.2f} {self.limit_s / middle:>8.0%}"
        )

    def json_line(self) -> str:
        """For scripts: one line."""
        samples = [
            {
                "context_tokens": s.context_tokens,
                "prefill_tokens": s.prefill_tokens,
                "prefill_tokens_per_s": s.prefill_tokens_per_s,
                "decode_median_s": s.decode_median_s,
                "decode_quartiles_s": s.decode_quartiles_s,
                "of_bandwidth_limit": self.limit_s / s.decode_median_s,
                "kv_bytes": s.kv_bytes,
            }
            for s in self.samples
        ]
        document = {
            "model": self.model,
            "machine": asdict(self.machine),
            "bytes_per_token": asdict(self.traffic),
            "limit_s": self.limit_s,
            "samples": samples,
            "peer": [asdict(p) for p in self.peer],
        }
        return json.dumps(document)
