"""What `whitedwarf bench serve` found out, as a table for people and one JSON line for scripts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles

from whitedwarf.bench.serve_overhead import OverheadSample
from whitedwarf.bench.serve_prompts import RestoreSample, TurnsSample, WaitingSample
from whitedwarf.bench.serve_streams import StreamsSample

# issue 4, "Load"
OVERHEAD_LIMIT_S = 150e-6
STREAMS_FACTOR = 2.5
WAITING_LIMIT_CHUNKS = 2.0
RESTORE_FACTOR = 50.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What was measured of one server; None or empty where it was not."""

    server: str
    overhead: Sequence[OverheadSample] = ()
    streams: Sequence[StreamsSample] = ()
    waiting: WaitingSample | None = None
    restore: RestoreSample | None = None
    turns: TurnsSample | None = None


@dataclass(frozen=True, slots=True)
class ServeReport:
    """One run: our server first, then the peer's where there is one."""

    cpu: str
    threads: int
    load: float  # of the machine's run queue when it began: what else was going on
    model: str
    repeats: int
    servers: Sequence[Parts] = field(default_factory=tuple)

    def table(self) -> str:
        """For people."""
        lines = [
            f"{self.model} on {self.cpu}, {self.threads} threads, load {self.load:.1f}",
            f"medians of {self.repeats} (quartiles)",
        ]
        for parts in self.servers:
            lines += [f"-- {parts.server}", *_lines(parts)]
        return "\n".join(lines)

    @property
    def meets_targets(self) -> dict[str, bool]:
        """For each part measured of our server: whether it is as good as issue 4 asks."""
        ours, met = self.servers[0], {}
        if ours.overhead:
            unpaced = [sample for sample in ours.overhead if not sample.is_paced]
            met["overhead"] = all(median(sample.wall_s) <= OVERHEAD_LIMIT_S for sample in unpaced)
        if ours.streams:
            met["streams"] = streams_gain(ours.streams) >= STREAMS_FACTOR
        if ours.waiting is not None:
            met["waiting"] = median(ours.waiting.waiting_s) <= WAITING_LIMIT_CHUNKS * ours.waiting.chunk_s
        if ours.restore is not None:
            met["restore"] = ours.restore.prefill_s >= RESTORE_FACTOR * median(ours.restore.restored_s)
        return met

    def json_line(self) -> str:
        """For scripts: one line."""
        document = {
            "machine": {"cpu": self.cpu, "threads": self.threads, "load": self.load},
            "model": self.model,
            "repeats": self.repeats,
            "servers": [asdict(parts) for parts in self.servers],
            "meets_targets": self.meets_targets,
        }
        return json.dumps(document)


def streams_gain(samples: Sequence[StreamsSample]) -> float:
    """Tokens a second of the most clients over those of one."""
    return median(samples[-1].tokens_per_s) / median(samples[0].tokens_per_s)


def _lines(parts: Parts) -> Iterator[str]:
    for sample in parts.overhead:
        kind = "paced" if sample.is_paced else "at once"
        wall = "" if sample.is_paced else f"{_shown(sample.wall_s, 1e6)} us, "
        cpu = f"{_shown(sample.cpu_s, 1e6)} us of processor time"
        yield f"overhead a token, {sample.dialect}, {sample.tokens} {kind}: {wall}{cpu}"
    for streams in parts.streams:
        gain = median(streams.tokens_per_s) / median(parts.streams[0].tokens_per_s)
        yield f"streams {streams.clients:>2}: {_shown(streams.tokens_per_s)} tokens/s together, {gain:.2f} times one"
    yield from _prompt_lines(parts)


def _prompt_lines(parts: Parts) -> Iterator[str]:
    if (w := parts.waiting) is not None:
        chunks = [seconds / w.chunk_s for seconds in w.waiting_s]
        yield f"first token of a short request: {_shown(w.idle_s, 1e3)} ms idle, {_shown(w.waiting_s, 1e3)} ms during"
        yield f"    a prompt of {w.long_tokens} tokens: {_shown(chunks)} chunks of {w.chunk_s * 1e3:.0f} ms"
    if (r := parts.restore) is not None:
        times = r.prefill_s / median(r.restored_s)
        yield f"restart with {r.tokens} tokens: first token after {_shown(r.restored_s, 1e3)} ms with"
        yield f"    {min(r.cached_tokens)} tokens from disk, {r.prefill_s * 1e3:.0f} ms without: {times:.1f} times"
    if (t := parts.turns) is not None:
        yield f"first turn of {t.tokens} tokens: {t.first_s * 1e3:.0f} ms; next ones {_shown(t.next_s, 1e3)} ms"
        yield f"    for {_shown(t.computed_tokens)} tokens computed, {min(t.cached_tokens)} or more remembered"


def _shown(values: Sequence[float], scale: float = 1.0) -> str:
    low, _, high = quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return f"{median(values) * scale:.2f} ({low * scale:.2f}-{high * scale:.2f})"
