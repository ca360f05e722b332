"""What `whitedwarf bench cluster` found out, as a table for people and one document for scripts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from whitedwarf.bench.cluster import ClusterPlan, Pace

# issue 10, "Accept"
HOP_LIMIT_S = 3e-3
PREFILL_LEAST = 1.6


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """One run; `alone` is the whole model in one process with one thread on one core."""

    model: str
    cpu: str
    load: float
    is_pinned: bool
    is_encrypted: bool
    bits: int
    plan: ClusterPlan
    alone: Pace
    clustered: tuple[Pace, ...]

    def added_per_hop_s(self, pace: Pace) -> float:
        """Of a token, beyond what one process needs for it."""
        return (pace.decode_median_s - self.alone.decode_median_s) / pace.num_hops

    @property
    def prefill_ratio(self) -> float:
        """How much faster a prompt is read by us and one member, each on a core, than by one process on one core."""
        return self.alone.prefill_median_s / self.clustered[0].prefill_median_s

    def table(self) -> str:
        """For people."""
        tls, pinned = "TLS" if self.is_encrypted else "plaintext", "a core each" if self.is_pinned else "not pinned"
        head = f"{self.model} on {self.cpu}, load {self.load:.1f}; {tls}, {self.bits} bits, one thread each, {pinned}"
        return "\n".join([head, *self._lines()])

    def document(self) -> dict[str, object]:
        """For scripts."""
        hops = {str(pace.members): self.added_per_hop_s(pace) for pace in self.clustered}
        meets = {
            "hop": all(added <= HOP_LIMIT_S for added in hops.values()),
            "prefill": self.prefill_ratio >= PREFILL_LEAST,
        }
        ours = {"added_per_hop_s": hops, "prefill_ratio": self.prefill_ratio, "meets_targets": meets}
        paces = {"alone": _document(self.alone), "clustered": [_document(pace) for pace in self.clustered]}
        return asdict(self) | paces | ours

    def _lines(self) -> Iterator[str]:
        tokens = self.plan.prompt_tokens
        for pace in (self.alone, *self.clustered):
            where = f"{pace.members} member{'s' * (pace.members > 1)}" if pace.members else "one process"
            low, high = pace.decode_quartiles_s
            line = (
                f"{where:<12} prompt {tokens / pace.prefill_median_s:8.1f} t/s; a token "
                f"{pace.decode_median_s * 1e3:.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})"
            )
            yield line if not pace.members else f"{line}, {self.added_per_hop_s(pace) * 1e3:.2f} ms added a hop"
        yield f"a prompt through two processes: {self.prefill_ratio:.2f} times one process"


def _document(pace: Pace) -> dict[str, object]:
    decode = {"decode_median_s": pace.decode_median_s, "decode_quartiles_s": pace.decode_quartiles_s}
    return {"members": pace.members, "prefill_s": pace.prefill_s} | decode
