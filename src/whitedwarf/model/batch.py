"""The rows of one forward pass: the tokens of all spans side by side, with their positions and rotary turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids, Span
from whitedwarf.model.rope import Rope, Turns
from whitedwarf.model.state import SequenceState
from whitedwarf.ops.base import IntArray, Ops
from whitedwarf.ops.spans import Spans, closed_windows


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
class Windows:
    """What a pass means to the layers of one ratio: compressed rows visible after it, and windows that close in it."""

    counts: IntArray  # (n,) those closed by a query's own token or earlier (2.3)
    turns: Turns  # (windows, rope/2, 2) at their first positions, span after span


@dataclass(frozen=True, slots=True)
class Batch:
    """All rows of a pass. `turns` and `compressed_turns` are the two rotary tables at these positions."""

    parts: tuple[Part, ...]
    spans: Spans  # the backend's own handle on `parts`
    ids: Ids  # (n,)
    positions: IntArray  # (n,)
    turns: Turns  # (n, rope/2, 2)
    compressed_turns: Turns  # (n, rope/2, 2)
    windows: Mapping[int, Windows]  # by ratio
    observe: Observer | None = None

    @classmethod
    def of(
        cls, spans: Sequence[Span], ops: Ops, plain: Rope, compressed: Rope, observe: Observer | None = None
    ) -> "Batch":
        """Makes room in every span's state, too."""
        parts = tuple(_parts(spans))
        for part in parts:
            part.state.make_room(part.num_tokens)
        ids = np.concatenate([span.ids for span in spans]).astype(np.int32, copy=False)
        positions = _positions(parts, len(ids))
        turns = plain.turns(positions), compressed.turns(positions)
        ratios = {ratio for ratio in parts[0].state.ratios if ratio}
        windows = {ratio: _windows(parts, positions, ratio, compressed) for ratio in ratios}
        return cls(parts, ops.spans(parts), ids, positions, *turns, windows, observe)

    def watch(self, name: str, layer: int, rows: np.ndarray) -> None:
        """Show rows to the observer, if there is one: a copy, because operations may use their memory again."""
        if self.observe is not None:
            self.observe(name, layer, rows.copy())


def check_ids(ids: Ids, vocab_size: int) -> None:
    """Refuse ids that no embedding row stands for."""
    if ids.min() < 0 or ids.max() >= vocab_size:
        bad_ids = ids[(ids < 0) | (ids >= vocab_size)]
        raise UsageError(
            f"token id {bad_ids[0]} is not in this model's vocabulary of {vocab_size} (ids 0..{vocab_size - 1})"
        )


def _positions(parts: Sequence[Part], num_rows: int) -> IntArray:
    if len(parts) == num_rows:  # a token of each, as in decoding
        return np.array([part.start for part in parts], np.int32)
    return np.concatenate([np.arange(part.start, part.end, dtype=np.int32) for part in parts])


def _windows(parts: Sequence[Part], positions: IntArray, ratio: int, rope: Rope) -> Windows:
    return Windows((positions + np.int32(1)) // np.int32(ratio), rope.turns(closed_windows(parts, ratio)))


def _parts(spans: Sequence[Span]) -> Iterator[Part]:
    row = 0
    for span in spans:
        if not isinstance(span.state, SequenceState):
            raise TypeError(f"expected a state made by this model's new_state(), got {type(span.state).__name__}")
        yield Part(span.state, slice(row, row + len(span.ids)), span.state.position)
        row += len(span.ids)
