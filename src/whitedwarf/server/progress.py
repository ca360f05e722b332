"""Lines in the log while a prompt is read and while an answer is written: a witness of one answer.

Promises: of a prompt at most one line every `PREFILL_S`, and never more than chunks; of an answer one after
`DECODE_TOKENS` tokens or after `DECODE_S`, and none within `SHORTEST_S` of the last. Rates are since the last line.
"""

import logging
import time
from collections.abc import Callable, Sequence

from whitedwarf.conversation.events import Event as Said
from whitedwarf.engine.request import Event, Prefilled, Token

log = logging.getLogger(__name__)

PREFILL_S = 2.0
DECODE_TOKENS = 50
DECODE_S = 5.0
SHORTEST_S = 1.0


class Progress:
    """What has been told of one request, and when."""

    def __init__(self, number: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._number = number
        self._clock = clock
        self._told_s = clock()
        self._told_tokens: int | None = None  # None: the prompt is not begun
        self._generated = 0

    def hears(self, event: Event) -> None:
        """An event of the engine."""
        match event:
            case Prefilled(processed, total):
                self._hear_prefill(processed, total)
            case Token():
                self._hear_token()

    def reads(self, said: Sequence[Said]) -> None:
        """Nothing of it is told."""

    def _hear_prefill(self, processed: int, total: int) -> None:
        if self._told_tokens is None:
            self._begin_at(processed)
        elif self._seconds >= PREFILL_S and processed < total:
            self._tell("prefill", f"{processed}/{total}", processed)
        if processed == total:
            self._begin_at(0)

    def _hear_token(self) -> None:
        self._generated += 1
        new = self._generated - (self._told_tokens or 0)
        if self._seconds >= (SHORTEST_S if new >= DECODE_TOKENS else DECODE_S):
            self._tell("decode", str(self._generated), self._generated)

    @property
    def _seconds(self) -> float:
        return self._clock() - self._told_s

    def _begin_at(self, tokens: int) -> None:
        self._told_s, self._told_tokens = self._clock(), tokens

    def _tell(self, what: str, tokens: str, reached: int) -> None:
        rate = round((reached - (self._told_tokens or 0)) / self._seconds, 1)
        log.info(what, extra={"request": self._number, "tokens": tokens, "tps": rate})
        self._begin_at(reached)
