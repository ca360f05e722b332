"""The operations over all spans of a pass: those of the reference, and the same bits as every sequence by itself."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, EPSILON, LEVELS, REFERENCE, THREADED, Draw, assert_close, assert_same_bits, exact
from whitedwarf.model.rows import SlidingRows
from whitedwarf.model.state import CompressorState, LayerState
from whitedwarf.ops.base import Ops, Pooling, RowFormat, RowKind, Visible
from whitedwarf.ops.spans import HOST, Pool, RowMemory, closed_windows

WINDOW, ROPE, HEADS, TOP = 20, 16, 4, 6
SPANS = st.lists(st.sampled_from([0, 1, 1, 1, 2, 5, 64, 65, 150]), min_size=1, max_size=5).filter(
    any
)  # 0: not in this pass


@dataclass
class Sequence:
    """A layer's stores and how far they have come; its tokens' inputs follow from `seed` and the position."""

    ratio: int
    seed: int
    kv: RowFormat
    key: RowFormat
    memory: RowMemory = HOST
    position: int = 0
    bound: object | None = None
    layers: list[LayerState] = field(init=False)

    @property
    def ratios(self) -> tuple[int]:
        return (self.ratio,)

    def __post_init__(self) -> None:
        keys = CompressorState.new(self.ratio, self.key, self.memory) if self.ratio == 4 else None
        window = SlidingRows(WINDOW + 16, self.kv.row_bytes, np.uint8, self.memory)
        self.layers = [LayerState(window, CompressorState.new(self.ratio, self.kv, self.memory), keys)]


@dataclass(frozen=True)
class Part:
    state: Sequence
    rows: slice
    start: int

    @property
    def num_tokens(self) -> int:
        return self.rows.stop - self.rows.start

    @property
    def end(self) -> int:
        return self.start + self.num_tokens


def formats(kind: RowKind) -> tuple[RowFormat, RowFormat]:
    return RowFormat(kind, 64, ROPE), RowFormat(RowKind.PACKED_KEY if kind is RowKind.PACKED_KV else kind, 32, ROPE)


def poolings(ratio: int, kv: RowFormat, key: RowFormat) -> dict[Pool, Pooling]:
    draw, overlap = Draw.seeded(7), 2 if ratio == 4 else 1
    pools = {Pool.ROWS: kv} | ({Pool.KEYS: key} if ratio == 4 else {})
    return {
        pool: Pooling(ratio, draw.floats(ratio, overlap * f.dims), draw.floats(f.dims), EPSILON, f)
        for pool, f in pools.items()
    }


def inputs(parts: list[Part], width: int, salt: int) -> np.ndarray:
    """Of each token by sequence and position alone, so that it does not depend on the passes."""
    rows = [
        Draw.seeded(1000 * part.state.seed + 100_000 * salt + position).floats(1, width)
        for part in parts
        for position in range(part.start, part.end)
    ]
    return np.concatenate(rows)


def run_pass(ops: Ops, sequences: list[Sequence], counts: list[int]) -> np.ndarray:
    """One pass of a layer with everything it can have -> (n, heads d)."""
    parts: list[Part] = []
    for sequence, count in zip(sequences, counts, strict=True):
        if count:
            row = parts[-1].rows.stop if parts else 0
            parts.append(Part(sequence, slice(row, row + count), sequence.position))
            sequence.layers[0].make_room(sequence.position, count, sequence.ratio)
            sequence.bound = None
    first = sequences[0]
    positions = np.concatenate([np.arange(part.start, part.end, dtype=np.int32) for part in parts])
    number = exact if ops is REFERENCE else np.ascontiguousarray
    spans, starts = ops.spans(parts), closed_windows(parts, first.ratio)
    table = Draw.seeded(3).turns(2000, ROPE)
    seen = ((positions + 1) // first.ratio).astype(np.int32)
    picked = None
    for pool, how in poolings(first.ratio, first.kv, first.key).items():
        values, gates = (number(inputs(parts, how.ape.shape[1], salt + 10 * pool.value)) for salt in (1, 2))
        ops.pool(spans, 0, pool, values, gates, how, table[starts])
    if first.ratio == 4:
        queries = number(inputs(parts, HEADS * first.key.dims, 5).reshape(-1, HEADS, first.key.dims))
        if first.key.kind is RowKind.PACKED_KEY:
            flat = queries.reshape(len(queries), -1)
            queries = ops.index_query(flat, HEADS, table[positions], first.key)
        picked = ops.pick(spans, 0, queries, number(inputs(parts, HEADS, 6)), first.key, seen, int(seen.max()), TOP)
    rows = ops.kv_rows(
        number(inputs(parts, first.kv.dims, 8)), Draw.seeded(9).floats(64), table[positions], EPSILON, first.kv
    )
    queries = number(inputs(parts, HEADS * first.kv.dims, 4).reshape(-1, HEADS, first.kv.dims))
    visible = Visible(positions, WINDOW, seen, picked, int(seen.max()))
    sinks = number(Draw.seeded(11).floats(HEADS))
    out = ops.attend(spans, 0, queries, rows, first.kv, visible, sinks, table[positions])
    for part in parts:
        part.state.position = part.end
    return out


def new_sequences(number: int, ratio: int, kind: RowKind, memory: RowMemory = HOST) -> list[Sequence]:
    return [Sequence(ratio, seed, *formats(kind), memory) for seed in range(number)]


def by_position(passes: list[list[int]], outputs: list[np.ndarray], number: int) -> np.ndarray:
    """Rows of the passes' outputs, sequence after sequence."""
    own: list[list[np.ndarray]] = [[] for _ in range(number)]
    for counts, output in zip(passes, outputs, strict=True):
        row = 0
        for sequence, count in enumerate(counts):
            own[sequence].append(output[row : row + count])
            row += count
    return np.concatenate([np.concatenate(rows) for rows in own])


@pytest.mark.parametrize("ratio", [4, 16])
@given(passes=st.lists(SPANS, min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_spans_are_the_reference_s(ratio, passes):
    number = max(map(len, passes))
    passes = [[*counts, *[0] * (number - len(counts))] for counts in passes]
    ours, truth = new_sequences(number, ratio, RowKind.F32), new_sequences(number, ratio, RowKind.F32)
    for counts in passes:
        assert_close(run_pass(CPU[LEVELS[-1]], ours, counts), run_pass(REFERENCE, truth, counts), 1e-4)


@pytest.mark.parametrize("ratio", [4, 16])
@pytest.mark.parametrize("kind", [RowKind.F32, RowKind.PACKED_KV])
@given(passes=st.lists(SPANS, min_size=1, max_size=5), threads=st.sampled_from([1, 2, 3]))
@settings(max_examples=20, deadline=None)
def test_neither_company_nor_chunks_nor_threads_change_a_bit_of_a_sequence(ratio, kind, passes, threads):
    number = max(map(len, passes))
    passes = [[*counts, *[0] * (number - len(counts))] for counts in passes]
    together = new_sequences(number, ratio, kind)
    ops = CPU[LEVELS[-1]] if threads == 1 else THREADED[threads]
    outputs = [run_pass(ops, together, counts) for counts in passes]
    lengths = [sum(counts) for counts in zip(*passes, strict=True)]
    others = zip(new_sequences(number, ratio, kind), lengths, strict=True)
    alone = [run_pass(CPU[LEVELS[0]], [other], [length]) for other, length in others if length]
    assert_same_bits(by_position(passes, outputs, number), np.concatenate(alone))


def test_spans_that_were_not_given_room_are_refused():
    [sequence] = new_sequences(1, 4, RowKind.F32)
    ops = CPU[LEVELS[-1]]
    run_pass(ops, [sequence], [40])
    sequence.position = 41  # as if a token had been run that no store has room for
    part = Part(sequence, slice(0, 64), 41)
    pooling = poolings(4, sequence.kv, sequence.key)[Pool.ROWS]
    x = np.zeros((64, 128), np.float32)
    with pytest.raises(ValueError, match="no room at 41 for 64"):
        ops.pool(ops.spans([part]), 0, Pool.ROWS, x, x, pooling, np.zeros((16, 8, 2), np.float32))


def test_layers_without_pooled_rows_and_strange_numbers_are_refused():
    [sequence] = new_sequences(1, 16, RowKind.F32)
    ops = CPU[LEVELS[-1]]
    spans = ops.spans([Part(sequence, slice(0, 1), 0)])
    queries, weights = np.zeros((1, HEADS, 32), np.float32), np.zeros((1, HEADS), np.float32)
    counts = np.array([9], np.int32)
    with pytest.raises(ValueError, match="layer 0 keeps no such rows"):
        ops.pick(spans, 0, queries, weights, sequence.key, counts, 9, TOP)
    with pytest.raises(ValueError, match="layer must be 0 to 0; got 1"):
        ops.pick(spans, 1, queries, weights, sequence.key, counts, 9, TOP)
