"""A model that rests by itself, for whoever runs one without an engine: perplexity, calibration, benchmarks.

Promises: the inner model's results, bit by bit, later. Ctrl+C is heard in a rest as it is in any sleep.
"""

import time
from collections.abc import Callable, Sequence

from whitedwarf.engine.power import Kind
from whitedwarf.engine.rests import Rests
from whitedwarf.model.base import Logits, PaceableModel, Span, State, is_reading
from whitedwarf.model.batch import Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.saved_states import ArraysKind, StateArrays
from whitedwarf.model.steering import Steering
from whitedwarf.ops.base import Ops


class PacedModel:
    """`model` working `power_percent` of the time. UsageError unless that is 1 to 100."""

    def __init__(
        self,
        model: DeepSeek,
        power_percent: int,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._rests = Rests(power_percent, sleep, clock)

    @property
    def config(self) -> ModelConfig:
        return self._model.config

    @property
    def ops(self) -> Ops:
        return self._model.ops

    @property
    def steering(self) -> Steering | None:
        return self._model.steering

    @property
    def arithmetic(self) -> str:
        return self._model.arithmetic

    def new_state(self) -> State:
        return self._model.new_state()

    def forward(self, spans: Sequence[Span], observe: Observer | None = None) -> list[Logits]:
        """As the model's own. A pass that somebody looks on at is rested for as a whole."""
        self._rests.begin()
        if not is_reading(spans):
            logits, kind = self._model.forward(spans, observe), Kind.DECODE
        elif observe is None and isinstance(self._model, PaceableModel):
            logits, kind = self._model.forward_at_pace(spans, self._rests.after), Kind.REST_OF_READ
        else:
            logits, kind = self._model.forward(spans, observe), Kind.READ
        self._rests.after(kind)
        return logits

    def steered(self, steering: Steering | None) -> "PacedModel":
        """As the model's own."""
        return PacedModel(self._model.steered(steering), self._rests.power_percent)

    def with_context(self, context_length: int) -> "PacedModel":
        """As the model's own."""
        return PacedModel(self._model.with_context(context_length), self._rests.power_percent)

    def state_arrays(self, kind: ArraysKind) -> StateArrays:
        """As the model's own."""
        return self._model.state_arrays(kind)
