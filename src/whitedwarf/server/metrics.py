"""What the server counts, for Prometheus: a registry of its own, so that two servers in one process do not mix.

Promises: labels come from small fixed sets, never from a client's words. Does not know HTTP.
"""

import time
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "whitedwarf_requests", "Requests by dialect and by how they ended.", ("dialect", "end"), registry=registry
        )
        self._tokens = Counter(
            "whitedwarf_tokens",
            "Tokens: prompt (all), cached (of these not computed again), generated.",
            ("kind",),
            registry=registry,
        )
        self._active = Gauge("whitedwarf_requests_active", "Requests queued or being answered.", registry=registry)
        self._seconds = Histogram(
            "whitedwarf_request_seconds",
            "From the whole request to the end of the answer.",
            ("dialect",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._unknown_fields = Counter(
            "whitedwarf_unknown_fields", "Fields of requests that nothing reads.", ("dialect",), registry=registry
        )
        self._repairs = Counter(
            "whitedwarf_repairs", "What models spoilt in their answers and was put right.", ("kind",), registry=registry
        )

    def exposition(self) -> bytes:
        """All of it, in Prometheus' text form."""
        return generate_latest(self._registry)

    def count_refused(self, dialect: str, status: int) -> None:
        """A request was refused with this HTTP status."""
        self._requests.labels(dialect, f"refused_{status}").inc()

    def begin(self, dialect: str, unknown_fields: Sequence[str]) -> "Running":
        """A request was queued."""
        self._unknown_fields.labels(dialect).inc(len(unknown_fields))
        self._active.inc()
        return Running(self, dialect)

    def count_ended(self, dialect: str, end: str, seconds: float) -> None:
        """A request that was queued has ended: done, failed or cancelled."""
        self._active.dec()
        self._requests.labels(dialect, end).inc()
        self._seconds.labels(dialect).observe(seconds)

    def count_tokens(self, prompt: int, cached: int, generated: int) -> None:
        """What a request took."""
        self._tokens.labels("prompt").inc(prompt)
        self._tokens.labels("cached").inc(cached)
        self._tokens.labels("generated").inc(generated)

    def count_repairs(self, repairs: Mapping[str, int]) -> None:
        """What was put right in an answer, by its kind."""
        for kind, number in repairs.items():
            self._repairs.labels(kind).inc(number)


class Running:
    """One request on its way."""

    def __init__(self, metrics: Metrics, dialect: str) -> None:
        self._metrics = metrics
        self._dialect = dialect
        self._started_s = time.monotonic()

    def count_repairs(self, repairs: Mapping[str, int]) -> None:
        """What was put right in its answer."""
        self._metrics.count_repairs(repairs)

    def end(self, end: str, prompt: int, cached: int, generated: int) -> float:
        """It has ended -> the seconds it took."""
        seconds = time.monotonic() - self._started_s
        self._metrics.count_ended(self._dialect, end, seconds)
        self._metrics.count_tokens(prompt, cached, generated)
        return seconds
