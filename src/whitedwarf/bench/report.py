"""Turns samples into a table for people and one JSON document for scripts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from whitedwarf.bench.layers import KIND_NAMES, FullModel, full_model
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.speed import Sample
from whitedwarf.bench.spread import quartiles
from whitedwarf.bench.traffic import LayerTraffic
from whitedwarf.gguf.hparams import Hyperparameters

GB = 1e9


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run of the instrument found out."""

    model: str
    prompt: str  # where the ids came from
    hp: Hyperparameters
    machine: Machine
    traffic: LayerTraffic
    samples: Sequence[Sample]

    @property
    def limit_s(self) -> float:
        """Seconds per token if memory were the only cost."""
        return self.traffic.total.total_bytes / self.machine.read_bytes_per_s

    def of_limit(self, sample: Sample) -> float | None:
        """Share of the memory's speed; None where nothing was decoded."""
        return self.limit_s / sample.decode_median_s if sample.decode_median_s else None

    def full(self, sample: Sample) -> FullModel | None:
        """The estimate for all layers; None where there is none."""
        if sample.decode_layers is None:
            return None
        return full_model(self.hp, sample.decode_layers, self.traffic, self.machine.read_bytes_per_s)

    def table(self) -> str:
        """For people."""
        total = self.traffic.total
        lines = [
            f"{self.model} on {self.machine}",
            f"weights per token {total.total_bytes / GB:.2f} GB (dense {total.dense_bytes / GB:.2f}, "
            f"experts {total.expert_bytes / GB:.2f}); memory {self.machine.read_bytes_per_s / GB:.1f} GB/s; "
            f"limit {self.limit_s * 1e3:.1f} ms per token; {self.prompt}",
            f"{'context':>8} {'prefill t/s':>12} {'decode ms':>10} {'quartiles':>15} {'decode t/s':>11} "
            f"{'limit':>8} {'state MB':>9}",
        ]
        lines += [self._row(sample) for sample in self.samples]
        lines += [line for sample in self._ends for line in self._layer_lines(sample)]
        return "\n".join(lines)

    @property
    def _ends(self) -> Sequence[Sample]:
        return self.samples if len(self.samples) < 2 else (self.samples[0], self.samples[-1])

    def _row(self, sample: Sample) -> str:
        row = f"{sample.context_tokens:>8} {sample.prefill_tokens_per_s:>12.1f} "
        middle, ends = sample.decode_median_s, sample.decode_quartiles_s
        if middle is None or ends is None:
            return f"{row}{'-':>10} {'-':>15} {'-':>11} {'-':>8} {sample.kv_bytes / 1e6:>9.1f}"
        return (
            f"{row}{middle * 1e3:>10.2f} {ends[0] * 1e3:>7.2f}-{ends[1] * 1e3:<7.2f} {1 / middle:>11.2f} "
            f"{self.limit_s / middle:>8.0%} {sample.kv_bytes / 1e6:>9.1f}"
        )

    def _layer_lines(self, sample: Sample) -> list[str]:
        if sample.decode_layers is None:
            return []
        kinds = sample.decode_layers.by_kind(self.hp.compress_ratios)
        parts = [f"{KIND_NAMES[kind]} {seconds * 1e3:.2f}" for kind, seconds in kinds.items()]
        lines = [
            f"decode at {sample.context_tokens}: ms per layer {', '.join(parts)}; "
            f"embedding and head {sample.decode_layers.rest_s * 1e3:.2f}"
        ]
        if (full := self.full(sample)) is not None:
            lines.append(
                f"    all {full.num_layers} layers of {full.name}: {full.decode_s * 1e3:.0f} ms, "
                f"{1 / full.decode_s:.2f} t/s (estimated); {full.weight_bytes / GB:.2f} GB per token, "
                f"limit {full.limit_s * 1e3:.0f} ms: {full.of_limit:.0%}"
            )
        return lines

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "model": self.model,
            "prompt": self.prompt,
            "machine": asdict(self.machine),
            "bytes_per_token": asdict(self.traffic.total),
            "limit_s": self.limit_s,
            "samples": [self._sample(sample) for sample in self.samples],
        }

    def _sample(self, sample: Sample) -> dict[str, object]:
        full, layers = self.full(sample), sample.decode_layers
        return {
            "context_tokens": sample.context_tokens,
            "prefill_tokens": sample.prefill_tokens,
            "prefill_tokens_per_s": sample.prefill_tokens_per_s,
            "prefill_quartiles_s": quartiles(sample.prefill_s),
            "prefill_s": sample.prefill_s,
            "gen_tokens": len(sample.decode_s),
            "decode_median_s": sample.decode_median_s,
            "decode_quartiles_s": sample.decode_quartiles_s,
            "of_bandwidth_limit": self.of_limit(sample),
            "kv_bytes": sample.kv_bytes,
            "layer_s": None if layers is None else _by_name(layers.by_kind(self.hp.compress_ratios)),
            "rest_s": None if layers is None else layers.rest_s,
            "full_model": None if full is None else asdict(full) | {"of_bandwidth_limit": full.of_limit},
        }


def _by_name(kinds: dict[int, float]) -> dict[str, float]:
    return {KIND_NAMES[kind]: seconds for kind, seconds in kinds.items()}
