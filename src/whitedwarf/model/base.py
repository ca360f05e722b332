"""What the engine may ask of a model: ids in, logits out, and a state per sequence.

The engine codes against these Protocols; Transformer is the real thing, tests have small fakes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]
LogitRows = Literal["none", "last", "all"]


class Snapshot(Protocol):
    """A frozen copy of a state; restoring it any number of times gives the same continuation."""

    @property
    def position(self) -> int: ...


class State(Protocol):
    """The KV state of one sequence, addressed by absolute position."""

    @property
    def position(self) -> int:
        """Tokens consumed so far = position of the next token."""

    @property
    def rollback_room(self) -> int:
        """How many tokens `rollback` can take back right now."""

    def rollback(self, num_tokens: int) -> None:
        """Forget the newest tokens; ValueError beyond `rollback_room`."""

    def snapshot(self) -> Snapshot: ...

    def restore(self, snapshot: Snapshot) -> None: ...


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive new tokens of one sequence: a prefill chunk, one decoded token, or drafts to verify."""

    state: State
    ids: Ids  # (n,) n >= 1
    logits: LogitRows = "last"


class ModelSize(Protocol):
    @property
    def vocab_size(self) -> int: ...
    @property
    def context_length(self) -> int: ...


class Model(Protocol):
    @property
    def config(self) -> ModelSize: ...

    def new_state(self) -> State: ...

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        """Run all spans in one pass -> per span the wanted logits (0, 1 or n, vocab).

        States advance together at the end. If it raises, the states of these spans must be dropped.
        """
