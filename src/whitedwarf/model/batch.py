"""The rows of one forward pass: the tokens of all spans side by side, with their positions and rotary turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids, Span
from whitedwarf.model.rope import Rope, Turns
from whitedwarf.model.state import LayerState, SequenceState
from whitedwarf.ops.base import IntArray


class Observer(Protocol):
    """Sees named intermediate rows of a pass: for tests, calibration and diagnosis."""

    def __call__(self, name: str, layer: int, rows: np.ndarray) -> None: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One span inside the batch."""

    state: SequenceState
    rows: slice  # of the batch
    start: int  # position of its first token

    @property
    def num_tokens(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def end(self) -> int:
        return self.start + self.num_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """All rows of a pass. `turns` and `compressed_turns` are the two rotary tables at these positions."""

    parts: tuple[Part, ...]
    ids: Ids  # (n,)
    positions: IntArray  # (n,)
    turns: Turns  # (n, rope/2, 2)
    compressed_turns: Turns  # (n, rope/2, 2)
    observe: Observer | None = None

    @classmethod
    def of(cls, spans: Sequence[Span], plain: Rope, compressed: Rope, observe: Observer | None) -> "Batch":
        parts = tuple(_parts(spans))
        ids = np.concatenate([span.ids for span in spans]).astype(np.int32)
        positions = np.concatenate([np.arange(part.start, part.end, dtype=np.int32) for part in parts])
        return cls(parts, ids, positions, plain.turns(positions), compressed.turns(positions), observe)

    def layer_states(self, layer: int) -> Iterator[tuple[Part, LayerState]]:
        """Each span with its own state of one layer."""
        return ((part, part.state.layers[layer]) for part in self.parts)

    def watch(self, name: str, layer: int, rows: np.ndarray) -> None:
        """Show rows to the observer, if there is one: a copy, because operations may use their memory again."""
        if self.observe is not None:
            self.observe(name, layer, rows.copy())


def check_ids(ids: Ids, vocab_size: int) -> None:
    """Refuse ids that no embedding row stands for."""
    bad_ids = ids[(ids < 0) | (ids >= vocab_size)]
    if len(bad_ids):
        raise UsageError(
            f"token id {bad_ids[0]} is not in this model's vocabulary of {vocab_size} (ids 0..{vocab_size - 1})"
        )


def _parts(spans: Sequence[Span]) -> Iterator[Part]:
    row = 0
    for span in spans:
        if not isinstance(span.state, SequenceState):
            raise TypeError(f"expected a state made by this model's new_state(), got {type(span.state).__name__}")
        yield Part(span.state, slice(row, row + len(span.ids)), span.state.position)
        row += len(span.ids)
