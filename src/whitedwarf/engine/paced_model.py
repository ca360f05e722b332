"""A model that rests by itself, for whoever runs one without an engine: perplexity, calibration, benchmarks.

Promises: the inner model's results, bit by bit, later. Ctrl+C is heard in a rest as it is in any sleep.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from whitedwarf.engine.power import Duty, Kind, checked_power
from whitedwarf.model.base import Logits, Span, is_reading
from whitedwarf.model.batch import Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops


class PacedModel:
    """`model` working `power_percent` of the time. UsageError unless that is 1 to 100."""

    def __init__(
        self,
        model: Transformer,
        power_percent: int,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._power_percent = checked_power(power_percent)
        self._sleep = sleep
        self._duty = Duty(clock)

    @property
    def config(self) -> ModelConfig:
        return self._model.config

    @property
    def ops(self) -> Ops:
        return self._model.ops

    def new_state(self) -> SequenceState:
        return self._model.new_state()

    def forward(self, spans: Sequence[Span], observe: Observer | None = None) -> list[Logits]:
        """As the model's own."""
        self._duty.begin()
        reads = is_reading(spans)
        logits = self._model.forward(spans, observe, self._rest if reads else None)
        self._rest(Kind.REST_OF_READ if reads else Kind.DECODE)
        return logits

    def _rest(self, kind: object) -> None:
        self._duty.worked(kind)
        if (left_s := self._duty.left_s(self._power_percent)) > 0:
            self._sleep(left_s)
        self._duty.rested(self._power_percent)


RunModel: TypeAlias = Transformer | PacedModel
"""What is run without an engine."""
