"""What a loaded DeepSeek V4 offers, wherever its layers are computed: in this process, or in several.

Everything above the engine that needs more of a model than running it asks for this. What only a model in one process
can do (to be looked into layer by layer, to be taken apart) asks for a Transformer.
"""

from collections.abc import Sequence
from typing import Protocol, Self

from whitedwarf.model.base import Logits, Span, State
from whitedwarf.model.batch import Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.saved_states import ArraysKind, StateArrays
from whitedwarf.model.steering import Steering
from whitedwarf.ops.base import Ops


class DeepSeek(Protocol):
    """A model of model/base.py, and its own numbers."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def ops(self) -> Ops:
        """Of the layers that are here."""

    @property
    def steering(self) -> Steering | None: ...

    @property
    def arithmetic(self) -> str:
        """All that decides what a state comes to, beside weights and steering."""

    def new_state(self) -> State: ...

    def forward(self, spans: Sequence[Span], observe: Observer | None = None) -> list[Logits]:
        """See model/base.py. UsageError where nobody can look on."""

    def steered(self, steering: Steering | None) -> Self:
        """The same weights under this steering instead of its own: another model, whose states are not this one's."""

    def with_context(self, context_length: int) -> Self:
        """The same weights with another limit."""

    def state_arrays(self, kind: ArraysKind) -> StateArrays:
        """What takes states of this model apart, and puts them together."""
