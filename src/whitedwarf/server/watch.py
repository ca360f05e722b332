"""Everybody who looks on at one answer: metrics, log and trace, told once and in the same order.

Promises: every request that was queued is counted and logged once when it has ended.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.events import Event as Said
from whitedwarf.conversation.events import Repair
from whitedwarf.engine.request import Event, Finished, Prefilled, Token
from whitedwarf.reply import Answering, Prepared, Witness
from whitedwarf.server.metrics import SHORTEST_TIMED_S, Metrics
from whitedwarf.server.progress import Progress
from whitedwarf.server.request_trace import ChoiceTrace, RequestTrace

log = logging.getLogger(__name__)


class Watch:
    """A witness of request `number`, which was queued just now; `request_id` is what its client knows it by."""

    def __init__(
        self,
        number: int,
        prepared: Prepared,
        metrics: Metrics,
        trace: RequestTrace | None = None,
        request_id: str = "",
    ) -> None:
        self._number = number
        self._id = request_id
        self._dialect = prepared.dialect.name
        self._metrics = metrics
        self._trace = trace
        self._progress = Progress(number)
        self._begun_s = time.monotonic()
        self._is_started = False
        self._has_token = False
        self._repairs: dict[str, None] = {}
        metrics.count_begun(self._dialect, prepared.converted.unknown_fields, prepared.recalled)

    def hears(self, event: Event) -> None:
        """An event of the engine."""
        self._count(event)
        self._progress.hears(event)
        if self._trace is not None:
            self._trace.hears(event)

    def reads(self, said: Sequence[Said]) -> None:
        """What the parser made of it."""
        self._count_repairs(said)
        if self._trace is not None:
            self._trace.reads(said)

    def beside(self, choice: int) -> Witness:
        """Progress and beginnings are told of the first choice, all else of the others too."""
        return _Beside(self._metrics, self._count_repairs, None if self._trace is None else self._trace.beside(choice))

    def end(self, reply: Answering) -> None:
        """The answer has ended, one way or another."""
        end = "failed" if reply.failure else "done" if reply.is_over else "cancelled"
        seconds = time.monotonic() - self._begun_s
        self._metrics.count_ended(self._dialect, end, seconds, was_started=self._is_started)
        self._metrics.count_tokens(reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens)
        log.info("request_ended", extra=self._facts(reply, end, seconds))
        if self._trace is not None:
            self._trace.end(end, reply.failure)

    def _count(self, event: Event) -> None:
        match event:
            case Prefilled() if not self._is_started:
                self._is_started = True
                self._metrics.count_started()
            case Token() if not self._has_token:
                self._has_token = True
                self._metrics.count_first_token(self._dialect, time.monotonic() - self._begun_s)
            case Finished() if self._is_started:
                self._metrics.count_finished(event)

    def _count_repairs(self, said: Sequence[Said]) -> None:
        for event in said:
            if isinstance(event, Repair):
                self._metrics.count_repair(event.kind)
                self._repairs[event.kind] = None

    def _facts(self, reply: Answering, end: str, seconds: float) -> dict[str, object]:
        return {
            "request": self._number,
            "id": self._id,
            "dialect": self._dialect,
            "end": end,
            "prompt": reply.prompt_tokens,
            "cached": reply.cached_tokens,
            "generated": reply.generated_tokens,
            "seconds": round(seconds, 3),
            "why": reply.failure.message if reply.failure else "",
            "repairs": ",".join(self._repairs),
            **_engine_facts(reply.finished),
        }


@dataclass(frozen=True, slots=True)
class _Beside:
    """A witness of another choice of a request."""

    metrics: Metrics
    count_repairs: Callable[[Sequence[Said]], None]
    trace: ChoiceTrace | None

    def hears(self, event: Event) -> None:
        """An event of the engine."""
        if isinstance(event, Finished):
            self.metrics.count_finished(event)
        if self.trace is not None:
            self.trace.hears(event)

    def reads(self, said: Sequence[Said]) -> None:
        """What the parser made of it."""
        self.count_repairs(said)

    def beside(self, choice: int) -> Witness:
        """One for all: nobody asks a second time."""
        return self


def _engine_facts(finished: Finished | None) -> dict[str, object]:
    """Where the prompt's beginning came from, why no more of it did, and tokens a second."""
    if finished is None:
        return {}
    computed = finished.prompt_tokens - finished.reused_tokens
    return {
        "reuse": finished.reuse.value,
        "miss": "" if finished.miss_reason is None else finished.miss_reason.value,
        "prefill_tps": _rate(computed, finished.prefill_s),
        "decode_tps": _rate(finished.generated_tokens, finished.decode_s),
    }


def _rate(tokens: int, seconds: float) -> object:
    """Tokens a second; nothing where the time was too short to tell, as with a script."""
    return round(tokens / seconds, 1) if seconds >= SHORTEST_TIMED_S else ""
