"""The rows of one forward pass: the tokens of all spans side by side, with their positions and rotary turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids, Pace, Span
from whitedwarf.model.rope import Rope, Turns
from whitedwarf.model.state import SequenceState
from whitedwarf.ops.base import FloatArray, IntArray, Ops
from whitedwarf.ops.spans import Spans, closed_windows


class Observer(Protocol):
    """Sees named intermediate rows of a pass: for tests, calibration and diagnosis."""

    def __call__(self, name: str, layer: int, rows: np.ndarray) -> None: ...


Note: TypeAlias = Callable[[FloatArray], None]
"""Sees the streams (n, S, D) after the last layer, the backend's own: good until it returns."""


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
    turns: Turns  # (windows or more, rope/2, 2) at their first positions, span after span
    most: int  # no count is larger


@dataclass(frozen=True, slots=True)
class Batch:
    """All rows of a pass. `turns` and `compressed_turns` are the two rotary tables at these positions.

    Its arrays are the backend's.
    """

    ops: Ops
    parts: tuple[Part, ...]
    spans: Spans  # the backend's own handle on `parts`
    ids: Ids  # (n,)
    positions: IntArray  # (n,)
    turns: Turns  # (n, rope/2, 2)
    compressed_turns: Turns  # (n, rope/2, 2)
    windows: Mapping[int, Windows]  # by ratio
    wanted: tuple[range, ...]  # rows whose logits are wanted, span by span
    observe: Observer | None = None
    entering: FloatArray | None = None  # (n, S, D) numpy's: the streams after the layers before ours
    pace: Pace | None = None
    note: Note | None = None

    @classmethod
    def of(
        cls,
        spans: Sequence[Span],
        ops: Ops,
        plain: Rope,
        compressed: Rope,
        vocab_size: int,
        observe: Observer | None = None,
        entering: FloatArray | None = None,
    ) -> "Batch":
        """Makes room in every span's state, too; UsageError for an id outside the vocabulary."""
        ids = np.concatenate([span.ids for span in spans]).astype(np.int32, copy=False)
        check_ids(ids, vocab_size)
        parts = tuple(_parts(spans))
        for part in parts:
            part.state.make_room(part.num_tokens)
        positions = _positions(parts, len(ids))
        ratios = sorted({ratio for ratio in parts[0].state.ratios if ratio})
        counts = [(positions + np.int32(1)) // np.int32(ratio) for ratio in ratios]
        closed = [compressed.turns(_closed(parts, ratio, ops)) for ratio in ratios]
        turns = plain.turns(positions), compressed.turns(positions)
        taken_in: tuple[Any, ...] = ops.arrays(ids, positions, *turns, *counts, *closed)
        of_ratios = zip(ratios, taken_in[4 : 4 + len(ratios)], taken_in[4 + len(ratios) :], counts, strict=True)
        return cls(
            ops=ops,
            parts=parts,
            spans=ops.spans(parts),
            ids=taken_in[0],
            positions=taken_in[1],
            turns=taken_in[2],
            compressed_turns=taken_in[3],
            windows={
                ratio: Windows(visible, closing, ops.visible_rows(int(host.max())))
                for ratio, visible, closing, host in of_ratios
            },
            wanted=tuple(_wanted_rows(span, part.rows) for span, part in zip(spans, parts, strict=True)),
            observe=observe,
            entering=entering,
        )

    @property
    def is_decode(self) -> bool:
        """See ops/base.py, Pass. What enters from elsewhere is not among the numbers that a recording finds."""
        if any(one is not None for one in (self.observe, self.entering, self.pace, self.note)):
            return False
        return all(part.num_tokens == len(rows) == 1 for part, rows in self._pairs)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (len(self.parts), *(windows.most for windows in self.windows.values()))

    @property
    def wanted_rows(self) -> list[int]:
        return [row for rows in self.wanted for row in rows]

    @property
    def _pairs(self) -> Iterator[tuple[Part, range]]:
        return zip(self.parts, self.wanted, strict=True)

    def end_layer(self, layer: int, rows: FloatArray | None) -> None:
        """Let the pace have its time, when the layer's last `rows` have been computed."""
        if self.pace is not None and rows is not None:
            self.ops.host(rows[:1])  # which waits for the device
            self.pace(layer)

    def watch(self, name: str, layer: int, rows: Any) -> None:
        """Show rows to the observer, if there is one: a copy, because operations may use their memory again."""
        if self.observe is not None:
            self.observe(name, layer, np.array(self.ops.host(rows)))


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


def _closed(parts: Sequence[Part], ratio: int, ops: Ops) -> IntArray:
    """First positions of the windows that close, followed by zeros for those for which the backend wants room."""
    closed = closed_windows(parts, ratio)
    padded = np.zeros(ops.closing_windows(len(closed), len(parts), parts[-1].rows.stop), np.int32)
    padded[: len(closed)] = closed
    return padded


def _wanted_rows(span: Span, rows: slice) -> range:
    match span.logits:
        case "all":
            return range(rows.start, rows.stop)
        case "last":
            return range(rows.stop - 1, rows.stop)
        case _:
            return range(0)


def _parts(spans: Sequence[Span]) -> Iterator[Part]:
    row = 0
    for span in spans:
        if not isinstance(span.state, SequenceState):
            raise TypeError(f"expected a state made by this model's new_state(), got {type(span.state).__name__}")
        yield Part(span.state, slice(row, row + len(span.ids)), span.state.position)
        row += len(span.ids)
