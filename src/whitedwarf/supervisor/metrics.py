"""What happened and how things stand, in Prometheus' text format.

Written by hand: the client library takes more memory than all the supervisor's own code. Counts only; nothing of a
prompt, nothing of a client.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.supervisor.status import ModelStatus, State

KIND = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Gauge:
    """One value of each model; None where it does not apply."""

    name: str
    kind: str
    meaning: str
    value: Callable[[ModelStatus], float | None]


_OF_MODEL = (
    _Gauge("loaded", "gauge", "Whether the model answers.", lambda one: float(one.state == State.LOADED)),
    _Gauge("in_flight", "gauge", "Requests being answered.", lambda one: one.in_flight),
    _Gauge("waiting", "gauge", "Requests that wait for the model.", lambda one: one.waiting),
    _Gauge("idle_seconds", "gauge", "Since the end of its last request.", lambda one: one.idle_s),
    _Gauge("release_in_seconds", "gauge", "Until it is let go.", lambda one: one.release_in_s),
    _Gauge("context_tokens", "gauge", "Its context.", lambda one: one.context_size or None),
    _Gauge("soft_limit_tokens", "gauge", "Its soft context limit.", lambda one: one.soft_limit or None),
    _Gauge("starts_total", "counter", "How often it was started.", lambda one: one.start_count),
    _Gauge("last_start_seconds", "gauge", "How long its last start took.", lambda one: one.last_start_s),
)


class Metrics:
    """Counts of one supervisor."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._replays: Counter[str] = Counter()
        self._since_s = time.monotonic()

    @property
    def uptime_s(self) -> float:
        """Since the supervisor started."""
        return time.monotonic() - self._since_s

    def count(self, model: str, outcome: str) -> None:
        """A request has ended: its status, "left" (by the client) or "cut" (by the server behind)."""
        self._requests[model, outcome] += 1

    def count_replay(self, model: str) -> None:
        """A request is sent again."""
        self._replays[model] += 1

    def text(self, models: Iterable[ModelStatus]) -> str:
        """All of it."""
        return "\n".join([*self._lines(tuple(models)), *_process_lines(self.uptime_s), ""])

    def _lines(self, models: tuple[ModelStatus, ...]) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests that ended, by status, left or cut.")
        for (model, outcome), count in sorted(self._requests.items()):
            yield _line("requests_total", {"model": model, "outcome": outcome}, count)
        yield from _head("replays_total", "counter", "Requests sent again, because the model went away.")
        for model, count in sorted(self._replays.items()):
            yield _line("replays_total", {"model": model}, count)
        for gauge in _OF_MODEL:
            yield from _head(gauge.name, gauge.kind, gauge.meaning)
            for one in models:
                if (value := gauge.value(one)) is not None:
                    yield _line(gauge.name, {"model": one.key}, value)


def _process_lines(uptime_s: float) -> Iterator[str]:
    yield from _head("uptime_seconds", "gauge", "Since the supervisor started.")
    yield _line("uptime_seconds", {}, uptime_s)
    if (resident := resident_bytes()) is not None:
        yield from _head("resident_memory_bytes", "gauge", "Memory of the supervisor itself.")
        yield _line("resident_memory_bytes", {}, resident)


def resident_bytes() -> int | None:
    """Of this process, where the system tells it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP whitedwarf_supervisor_{name} {meaning}", f"# TYPE whitedwarf_supervisor_{name} {kind}"


def _line(name: str, labels: dict[str, str], value: float) -> str:
    said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    number = repr(float(value)) if isinstance(value, float) and not value.is_integer() else str(int(value))
    return f"whitedwarf_supervisor_{name}{{{said}}} {number}" if said else f"whitedwarf_supervisor_{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
