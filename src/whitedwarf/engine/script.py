"""What a scripted engine answers: plain frozen values, in token ids.

Who turns a script file's text into ids is server/script.py; here is no text.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from whitedwarf.engine.request import FinishReason
from whitedwarf.errors import UsageError

ENDINGS = (FinishReason.STOP, FinishReason.LENGTH)


@dataclass(frozen=True, slots=True)
class Step:
    """One token, and how long the engine waits before it."""

    id: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer: the ids of each piece, how it ends, and how long it takes.

    `delay_s` comes before every piece, `prefill_s` before the first of them. `stop_id` is the token that is told to
    have ended an answer that stops. UsageError for an ending that no script can ask for, or a time that is none.
    """

    pieces: tuple[tuple[int, ...], ...]
    ending: FinishReason = FinishReason.STOP
    stop_id: int | None = None
    prefill_s: float = 0.0
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.ending not in ENDINGS:
            raise UsageError(f"a scripted answer ends with stop or length, got {self.ending}")
        for name in ("prefill_s", "delay_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise UsageError(f"{name} must be a number of seconds, 0 or more, got {getattr(self, name)}")

    def steps(self) -> Iterator[Step]:
        """The tokens one by one; a piece without any makes the next one wait longer."""
        wait_s = 0.0
        for piece in self.pieces:
            wait_s += self.delay_s
            for token in piece:
                yield Step(token, wait_s)
                wait_s = 0.0
