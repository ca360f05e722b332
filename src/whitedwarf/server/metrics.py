"""What the server counts, for Prometheus: a registry of its own, so that two servers in one process do not mix.

Promises: labels come from small fixed sets, never from a client's words; telling it waits for nobody. Counters are
changed on the event loop. Does not know HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from whitedwarf.engine.request import Finished
from whitedwarf.protocol.recalled import Recalled
from whitedwarf.server.engine_gauges import EngineGauges
from whitedwarf.server.facts import Facts

CONTENT_TYPE = CONTENT_TYPE_LATEST
SHORTEST_TIMED_S = 0.0005
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that wait for the engine, and those it works on."""

    waiting: int
    running: int


class Metrics:
    """Counters of one server, and gauges of its engine."""

    def __init__(self, facts: Facts | None = None) -> None:
        self._registry = CollectorRegistry()
        self._waiting = 0
        self._running = 0
        self._make_counters()
        self._make_histograms()
        self._registry.register(EngineGauges(facts or Facts()))

    def _make_counters(self) -> None:
        self._requests = self._counter("requests", "Requests by dialect and by how they ended.", "dialect", "end")
        self._tokens = self._counter(
            "tokens",
            "Tokens: prompt (all), cached (of these not computed again), generated; drafted (guesses of these that the "
            "model looked at) and accepted (those that were right).",
            "kind",
        )
        self._unknown_fields = self._counter("unknown_fields", "Fields of requests that nothing reads.", "dialect")
        self._repairs = self._counter("repairs", "Mistakes of the model that were put right.", "kind")
        self._recalled = self._counter(
            "recalled_calls",
            "Calls in histories: in the model's own words (memory, disk), or not.",
            "kind",
        )
        self._active = self._gauge("requests_active", "Requests queued or being answered.")
        self._gauge("requests_waiting", "Requests that wait for the engine.").set_function(lambda: self._waiting)
        self._gauge("requests_running", "Requests being answered.").set_function(lambda: self._running)

    def _make_histograms(self) -> None:
        self._seconds = self._histogram(
            "request_seconds", "From the whole request to the end of the answer.", _SECONDS, "dialect"
        )
        self._first_token = self._histogram(
            "first_token_seconds", "From the whole request to the first token of the answer.", _SECONDS, "dialect"
        )
        self._between_tokens = self._histogram(
            "token_seconds", "Between two tokens of an answer, the mean of each answer.", _TOKEN_SECONDS
        )
        self._prefill_rate = self._histogram(
            "prefill_tokens_per_second", "Tokens of a prompt that were computed, a second.", _RATES
        )
        self._decode_rate = self._histogram("decode_tokens_per_second", "Tokens of an answer, a second.", _RATES)

    def exposition(self) -> bytes:
        """All of it, in Prometheus' text form."""
        return generate_latest(self._registry)

    @property
    def load(self) -> Load:
        """How busy the engine is."""
        return Load(self._waiting, self._running)

    def count_refused(self, dialect: str, status: int) -> None:
        """A request was refused with this HTTP status; `dialect` is "other" where its address speaks none."""
        self._requests.labels(dialect, f"refused_{status}").inc()

    def count_begun(self, dialect: str, unknown_fields: Sequence[str], recalled: Recalled) -> None:
        """A request was queued."""
        self._unknown_fields.labels(dialect).inc(len(unknown_fields))
        for kind in ("from_memory", "from_disk", "rewritten", "unknown"):
            self._recalled.labels(kind.removeprefix("from_")).inc(getattr(recalled, kind))
        self._active.inc()
        self._waiting += 1

    def count_started(self) -> None:
        """The engine has taken up a request that was queued."""
        self._waiting -= 1
        self._running += 1

    def count_first_token(self, dialect: str, seconds: float) -> None:
        """An answer begins."""
        self._first_token.labels(dialect).observe(seconds)

    def count_repair(self, kind: str) -> None:
        """A mistake of the model was put right."""
        self._repairs.labels(kind).inc()

    def count_finished(self, finished: Finished) -> None:
        """The engine's last word on a request that it had taken up."""
        computed = finished.prompt_tokens - finished.reused_tokens
        if finished.prefill_s >= SHORTEST_TIMED_S and computed > 0:
            self._prefill_rate.observe(computed / finished.prefill_s)
        if finished.decode_s >= SHORTEST_TIMED_S and finished.generated_tokens > 0:
            self._decode_rate.observe(finished.generated_tokens / finished.decode_s)
        self._tokens.labels("drafted").inc(finished.drafted_tokens)
        self._tokens.labels("accepted").inc(finished.accepted_tokens)
        if finished.generated_tokens > 1:
            self._between_tokens.observe(finished.decode_s / (finished.generated_tokens - 1))

    def count_ended(self, dialect: str, end: str, seconds: float, *, was_started: bool) -> None:
        """A request that was queued has ended: done, failed or cancelled."""
        self._active.dec()
        if was_started:
            self._running -= 1
        else:
            self._waiting -= 1
        self._requests.labels(dialect, end).inc()
        self._seconds.labels(dialect).observe(seconds)

    def count_tokens(self, prompt: int, cached: int, generated: int) -> None:
        """What a request took."""
        self._tokens.labels("prompt").inc(prompt)
        self._tokens.labels("cached").inc(cached)
        self._tokens.labels("generated").inc(generated)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"whitedwarf_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"whitedwarf_{name}", text, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"whitedwarf_{name}", text, labels, buckets=buckets, registry=self._registry)
