"""Turns samples into a table for people and one JSON document for scripts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from whitedwarf.bench.layers import KIND_NAMES, FullModel, LayerTimes, full_model, scaled
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
    operations_per_token: int = 0  # with weights, in prefill
    int8_ops_per_s: float | None = None
    peak_beyond_files_bytes: int | None = None
    experts: Mapping[str, float] | None = None  # counted over all of it, where they are not simply in memory
    streaming: Mapping[str, object] | None = None  # what is kept, where they are read from a disk

    @property
    def limit_s(self) -> float:
        """Seconds per token if memory were the only cost."""
        return self.traffic.total.total_bytes / self.machine.read_bytes_per_s

    def of_limit(self, sample: Sample) -> float | None:
        """Share of the memory's speed; None where nothing was decoded."""
        return self.limit_s / sample.decode_median_s if sample.decode_median_s else None

    def full(self, sample: Sample) -> FullModel | None:
        """The estimate for all layers; None where there is none."""
        if sample.decode_layers is None or sample.prefill_layers is None:
            return None
        prefill = scaled(sample.prefill_layers, 1 / sample.prefill_tokens)
        bandwidth = self.machine.read_bytes_per_s
        return full_model(self.hp, sample.decode_layers, prefill, self.traffic, bandwidth)

    def of_int8(self, sample: Sample) -> float | None:
        """Share of the int8 arithmetic that prefill reaches, counting products with weights only."""
        if self.int8_ops_per_s is None:
            return None
        return self.operations_per_token * sample.prefill_tokens_per_s / self.int8_ops_per_s

    def table(self) -> str:
        """For people."""
        total = self.traffic.total
        lines = [
            f"{self.model} on {self.machine}",
            f"weights per token {total.total_bytes / GB:.2f} GB (dense {total.dense_bytes / GB:.2f}, "
            f"experts {total.expert_bytes / GB:.2f}); memory {self.machine.read_bytes_per_s / GB:.1f} GB/s; "
            f"limit {self.limit_s * 1e3:.1f} ms per token; {self.prompt}",
            f"{'context':>8} {'prefill t/s':>12} {'int8':>5} {'decode ms':>10} {'quartiles':>15} {'decode t/s':>11} "
            f"{'limit':>8} {'state MB':>9}",
        ]
        lines += [self._row(sample) for sample in self.samples]
        lines += [line for sample in self._ends for line in self._layer_lines(sample)]
        if (peak := self.peak_beyond_files_bytes) is not None:
            lines.append(f"peak memory beyond the file {peak / GB:.2f} GB")
        if self.experts is not None:
            lines.append(self._experts_line(self.experts))
        return "\n".join(lines)

    def _experts_line(self, counts: Mapping[str, float]) -> str:
        needed = counts["hits"] + counts["misses"]
        read = f", {counts['read_bytes'] / GB:.2f} GB read" if "read_bytes" in counts else ""
        return f"experts: {counts['hits'] / max(1.0, needed):.1%} of {needed:.0f} found{read}"

    @property
    def _ends(self) -> Sequence[Sample]:
        return self.samples if len(self.samples) < 2 else (self.samples[0], self.samples[-1])

    def _row(self, sample: Sample) -> str:
        int8 = self.of_int8(sample)
        share = f"{'-':>5}" if int8 is None else f"{int8:>5.0%}"
        row = f"{sample.context_tokens:>8} {sample.prefill_tokens_per_s:>12.1f} {share} "
        middle, ends = sample.decode_median_s, sample.decode_quartiles_s
        if middle is None or ends is None:
            return f"{row}{'-':>10} {'-':>15} {'-':>11} {'-':>8} {sample.kv_bytes / 1e6:>9.1f}"
        return (
            f"{row}{middle * 1e3:>10.2f} {ends[0] * 1e3:>7.2f}-{ends[1] * 1e3:<7.2f} {1 / middle:>11.2f} "
            f"{self.limit_s / middle:>8.0%} {sample.kv_bytes / 1e6:>9.1f}"
        )

    def _layer_lines(self, sample: Sample) -> Iterator[str]:
        parts = [("prefill", sample.prefill_layers, 1e3 / sample.prefill_tokens), ("decode", sample.decode_layers, 1e3)]
        for name, times, scale in parts:
            if times is not None:
                kinds = times.by_kind(self.hp.compress_ratios)
                layers = ", ".join(f"{KIND_NAMES[kind]} {seconds * scale:.3f}" for kind, seconds in kinds.items())
                rest = f"embedding and head {times.rest_s * scale:.3f}"
                yield f"{name} at {sample.context_tokens}: ms a token and layer {layers}; {rest}"
        if (full := self.full(sample)) is not None:
            yield (
                f"    all {full.num_layers} layers of {full.name}, estimated: prefill {1 / full.prefill_s:.1f} t/s; "
                f"decode {full.decode_s * 1e3:.0f} ms, {1 / full.decode_s:.2f} t/s; "
                f"{full.weight_bytes / GB:.2f} GB per token, limit {full.limit_s * 1e3:.0f} ms: {full.of_limit:.0%}"
            )

    def document(self) -> dict[str, object]:
        """For scripts."""
        return {
            "model": self.model,
            "prompt": self.prompt,
            "machine": asdict(self.machine),
            "bytes_per_token": asdict(self.traffic.total),
            "limit_s": self.limit_s,
            "operations_per_token": self.operations_per_token,
            "int8_ops_per_s": self.int8_ops_per_s,
            "peak_beyond_files_bytes": self.peak_beyond_files_bytes,
            "experts": None if self.experts is None else dict(self.experts),
            "streaming": None if self.streaming is None else dict(self.streaming),
            "samples": [self._sample(sample) for sample in self.samples],
        }

    def _sample(self, sample: Sample) -> dict[str, object]:
        full = self.full(sample)
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
            "of_int8_limit": self.of_int8(sample),
            "prefill_layers": self._layers(sample.prefill_layers),
            "decode_layers": self._layers(sample.decode_layers),
            "full_model": None if full is None else asdict(full) | {"of_bandwidth_limit": full.of_limit},
        }

    def _layers(self, times: LayerTimes | None) -> dict[str, float] | None:
        if times is None:
            return None
        kinds = times.by_kind(self.hp.compress_ratios)
        return {**{KIND_NAMES[kind]: seconds for kind, seconds in kinds.items()}, "rest": times.rest_s}
