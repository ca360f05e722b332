"""What `whitedwarf bench supervisor` found out, as a table for people and one document for scripts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from whitedwarf.bench.supervisor_overhead import SupervisorSample

# issue 6, "Accept"
REQUEST_LIMIT_S = 2e-3
EVENT_LIMIT_S = 30e-6
RESIDENT_LIMIT_BYTES = 40_000_000
IDLE_LIMIT = 0.005
START_LIMIT_S = 0.1


@dataclass(frozen=True, slots=True)
class SupervisorReport:
    """One run. `load` is the machine's run queue when it began: what else was going on."""

    cpu: str
    threads: int
    load: float
    sample: SupervisorSample

    def table(self) -> str:
        """For people."""
        return "\n".join([f"supervisor on {self.cpu}, {self.threads} threads, load {self.load:.1f}", *self._lines()])

    def document(self) -> dict[str, object]:
        """For scripts."""
        machine = {"cpu": self.cpu, "threads": self.threads, "load": self.load}
        return {"machine": machine, **asdict(self.sample), "meets_targets": self.meets_targets}

    @property
    def meets_targets(self) -> dict[str, bool]:
        """Whether each figure is as good as issue 6 asks."""
        sample = self.sample
        return {
            "requests": all(one.added_s <= REQUEST_LIMIT_S for one in sample.requests),
            "events": all(one.added_wall_s <= EVENT_LIMIT_S for one in sample.events),
            "single_events": all(one.added_latency_s <= EVENT_LIMIT_S for one in sample.events),
            "memory": sample.resident_bytes <= RESIDENT_LIMIT_BYTES,
            "idle": sample.idle_cpu_share <= IDLE_LIMIT,
            "start": sample.added_start_s <= START_LIMIT_S,
        }

    def _lines(self) -> Iterator[str]:
        sample = self.sample
        for one in sample.requests:
            yield (
                f"request with {one.body_bytes:>6} bytes: {one.supervised_s * 1e3:.2f} ms, directly "
                f"{one.direct_s * 1e3:.2f} ms: {one.added_s * 1e3:.2f} ms added"
            )
        for event in sample.events:
            yield (
                f"event of {event.event_bytes:>5} bytes: alone {event.added_latency_s * 1e6:.0f} us added to "
                f"{event.direct_latency_s * 1e6:.0f} (a bare relay {event.relay_added_s * 1e6:.0f}), among many "
                f"{event.added_wall_s * 1e6:.1f} us added to {event.direct_wall_s * 1e6:.1f}; processor time "
                f"{event.paced_cpu_s * 1e6:.0f} and {event.cpu_s * 1e6:.1f} us"
            )
        yield f"memory after {sample.num_requests} requests: {sample.resident_bytes / 1e6:.1f} MB"
        yield f"processor while idle: {sample.idle_cpu_share:.2%}"
        yield (
            f"cold start: {sample.cold_start_s * 1e3:.0f} ms, the model by itself {sample.model_start_s * 1e3:.0f} ms"
        )
