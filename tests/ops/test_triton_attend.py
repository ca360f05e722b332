"""Attention and the indexer's choice in Triton over spans of every kind of row, against the twins span by span."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from ops.cases import KEY_KINDS, KV_KINDS, Draw, assert_close, assert_same_bits
from ops.test_cpu_attention import picked_rows
from ops.test_cpu_index import repeated_keys, simple_floats
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.rows import round_like_keys
from whitedwarf.ops.triton import attend as attend_kernel
from whitedwarf.ops.triton import pick as pick_kernel
from whitedwarf.ops.triton.span_table import KEYS, NUM_STORES, ROWS, WINDOW, SpanTable
from whitedwarf.ops.twins.attention import attention
from whitedwarf.ops.twins.index import index_pick
from whitedwarf.ops.twins.rows import TorchRows

LENGTH = 20  # of the window


@dataclass
class Spans:
    """Spans whose stores begin at odd addresses, as rows of odd length do."""

    starts: np.ndarray
    counts: np.ndarray
    is_long: bool = False

    def table(self, stores: dict[int, list[tuple[torch.Tensor, int]]]) -> SpanTable:
        """stores: by kind, each span's buffer and the row it begins with."""
        number, ends = len(self.starts), self.starts + self.counts
        bases = np.zeros((1, NUM_STORES, number), np.int64)
        for store, buffers in stores.items():
            bases[0, store] = [data.data_ptr() - first * data.shape[1] for data, first in buffers]
        return SpanTable(
            starts=on_device(self.starts),
            row_starts=on_device(np.cumsum([0, *self.counts], dtype=np.int32)),
            span_of_row=on_device(np.repeat(np.arange(number, dtype=np.int32), self.counts)),
            bases=on_device(bases),
            fresh=on_device(self.starts if self.is_long else ends),
            closed={},
            num_spans=number,
            num_rows=int(self.counts.sum()),
            is_decode=bool((self.counts == 1).all()),
            longest=int(self.counts.max()),
        )

    @property
    def positions(self) -> np.ndarray:
        pairs = zip(self.starts, self.counts, strict=True)
        return np.concatenate([np.arange(start, start + count, dtype=np.int32) for start, count in pairs])

    @property
    def rows(self) -> list[slice]:
        ends = np.cumsum(self.counts)
        return [slice(int(end - count), int(end)) for end, count in zip(ends, self.counts, strict=True)]


def spans(*pairs: tuple[int, int], is_long: bool = False) -> Spans:
    starts, counts = np.array(pairs, np.int32).T
    return Spans(starts, counts, is_long)


def check_attend(own: Spans, format: RowFormat, heads: int, seen: str, tolerance: float) -> None:
    draw, n = Draw.seeded(int(own.counts.sum())), int(own.counts.sum())
    dims, number = format.dims, len(own.starts)
    new = on_device(draw.rows(n, format).data)
    held = [on_device(draw.rows(LENGTH + int(count) + 3, format).data) for count in own.counts]
    firsts = [max(0, int(start) - LENGTH - 1) for start in own.starts]
    pooled = [on_device(draw.rows(90, format).data) for _ in range(number)]
    counts = None if seen == "none" else draw.rng.integers(0, 91, n).astype(np.int32)
    picked = picked_rows(draw, counts, 24) if seen == "picked" else None
    queries, sinks, turns = draw.floats(n, heads, dims), draw.floats(heads), draw.turns(n, format.rope_dims)
    table = own.table({WINDOW: list(zip(held, firsts, strict=True)), ROWS: [(data, 0) for data in pooled]})
    before = [data.clone() for data in held]
    seen_rows = on_device(own.positions), LENGTH, on_device(counts), on_device(picked)
    most = 0 if counts is None else int(counts.max())
    out = attend_kernel.attend(
        table, 0, on_device(queries), new, format, *seen_rows, most, on_device(sinks), on_device(turns)
    )
    expected = []
    for rows, start, data, old, first, compressed in zip(
        own.rows, own.starts, held, before, firsts, pooled, strict=True
    ):
        count = rows.stop - rows.start
        joined = torch.cat([old[: start - first], new[rows]])
        stored = old if own.is_long else torch.cat([joined, old[start - first + count :]])
        assert_same_bits(from_device(data), from_device(stored))
        one = lambda x, rows=rows: None if x is None else on_device(x[rows])  # noqa: E731
        expected.append(
            attention(
                one(queries),
                TorchRows(format, joined, first),
                None if counts is None else TorchRows(format, compressed),
                one(own.positions),
                LENGTH,
                one(counts),
                one(picked),
                on_device(sinks),
                one(turns),
            )
        )
    assert_close(from_device(out), from_device(torch.cat(expected)), tolerance)


FORMATS = [RowFormat(kind, 128, 64) for kind in KV_KINDS] + [RowFormat(RowKind.PACKED_KV, 128, 16)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seen", ["none", "counts", "picked"])
def test_a_few_queries_are_the_twin_s_to_the_last_digits(format, seen):
    check_attend(spans((0, 1), (30, 1), (7, 1)), format, 5, seen, 1e-5)


def test_more_heads_than_a_program_takes():
    check_attend(spans((50, 1)), RowFormat(RowKind.PACKED_KV, 64, 16), 20, "counts", 1e-5)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seen", ["none", "counts", "picked"])
@pytest.mark.parametrize("many", [1, 99])
def test_more_queries_are_near_the_twin_s(format, seen, many, monkeypatch):
    monkeypatch.setattr(attend_kernel, "FEW_ROWS", 1)
    monkeypatch.setattr(attend_kernel, "MANY_ROWS", many)
    monkeypatch.setattr(attend_kernel, "SOME_KEYS", 64)
    check_attend(spans((28, 3), (0, 1)), format, 5, seen, 6e-3)


@pytest.mark.parametrize("format", [RowFormat(RowKind.F32, 72, 64), RowFormat(RowKind.F32, 64, 8)])
def test_rows_that_do_not_fit_tensor_cores_are_refused(format):
    with pytest.raises(ValueError, match="a multiple of 16 plain dims"):
        check_attend(spans((3, 1)), format, 2, "none", 1e-5)


@pytest.mark.parametrize("many", [1, 99])
def test_devices_with_less_shared_memory_take_fewer_heads_at_a_time(many, monkeypatch):
    monkeypatch.setattr(attend_kernel, "_is_wide", lambda device: False)
    monkeypatch.setattr(attend_kernel, "FEW_ROWS", 1)
    monkeypatch.setattr(attend_kernel, "MANY_ROWS", many)
    check_attend(spans((28, 3), (0, 1)), RowFormat(RowKind.PACKED_KV, 128, 64), 20, "picked", 6e-3)


def test_rows_of_long_spans_are_left_to_the_host():
    check_attend(spans((28, 3), is_long=True), RowFormat(RowKind.PACKED_KV, 128, 64), 5, "counts", 1e-5)


def test_a_query_with_more_keys_than_parts_takes_longer_parts(monkeypatch):
    monkeypatch.setattr(attend_kernel, "FEW_KEYS", 2)
    check_attend(spans((30, 1), (3, 1)), RowFormat(RowKind.F32, 64, 16), 4, "counts", 1e-5)


@pytest.mark.parametrize("kind", KEY_KINDS)
@pytest.mark.parametrize(("own", "top"), [(spans((9, 1), (70, 1)), 7), (spans((2, 5), (40, 18), (3, 1)), 16)])
def test_the_best_keys_are_picked_and_ties_go_to_the_lowest_row(kind, own, top):
    draw, format, heads, num_keys = Draw.seeded(top), RowFormat(kind, 128, 64), 3, 150
    n = int(own.counts.sum())
    keys = [repeated_keys(draw, num_keys, format) for _ in own.starts]
    data = [on_device(rows.data) for rows in keys]
    counts = np.concatenate([np.sort(draw.rng.integers(0, num_keys + 1, count)) for count in own.counts])
    counts = counts.astype(np.int32)
    queries = round_like_keys(simple_floats(draw, n, heads, 128), format)
    weights = simple_floats(draw, n, heads)
    table = own.table({KEYS: [(rows, 0) for rows in data]})
    inputs = on_device(queries), on_device(weights), format, on_device(counts)
    out = pick_kernel.pick(table, 0, *inputs, num_keys, top)
    for rows, stored in zip(own.rows, data, strict=True):
        one = [on_device(x[rows]) for x in (queries, weights)]
        expected = index_pick(*one, TorchRows(format, stored), on_device(counts[rows]), top)
        np.testing.assert_array_equal(from_device(out[rows]), from_device(expected))


def test_scores_are_made_slice_by_slice_and_looked_at_block_by_block(monkeypatch):
    monkeypatch.setattr(pick_kernel, "SCORE_BYTES", 4 * 300 * 3)
    monkeypatch.setattr(pick_kernel, "BLOCK", 64)
    draw, format, own = Draw.seeded(1), RowFormat(RowKind.F32, 32, 16), spans((2, 7), (40, 1))
    data = [on_device(draw.rows(300, format).data) for _ in own.starts]
    counts = np.array([100, 110, 120, 130, 200, 250, 300, 299], np.int32)
    queries, weights = draw.floats(8, 2, 32), draw.floats(8, 2)
    queries[5] = -np.abs(queries[5])
    weights[5] = 0  # all equal
    table = own.table({KEYS: [(rows, 0) for rows in data]})
    out = pick_kernel.pick(table, 0, on_device(queries), on_device(weights), format, on_device(counts), 300, 90)
    for rows, stored in zip(own.rows, data, strict=True):
        one = [on_device(x[rows]) for x in (queries, weights)]
        expected = index_pick(*one, TorchRows(format, stored), on_device(counts[rows]), 90)
        np.testing.assert_array_equal(from_device(out[rows]), from_device(expected))
