"""The two stores of rows against plain lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.model.rows import AppendedRows, SlidingRows

chunks = st.lists(st.tuples(st.integers(1, 150), st.integers(0, 5)), max_size=12)


def numbered(start, count):
    return np.arange(start, start + count, dtype=np.float32)[:, None].repeat(2, axis=1)


@given(chunks, st.integers(6, 40))
def test_sliding_rows_hold_at_least_the_newest_keep_rows_whatever_the_chunks_and_rollbacks(steps, keep):
    rows, end, furthest = SlidingRows(keep, 2, np.float32), 0, 0
    for count, back in steps:
        start = max(0, end - back, furthest - 5)
        view, first = rows.extend(start, numbered(start, count))
        assert first <= max(0, furthest - keep)
        end = start + count
        furthest = max(furthest, end)
        assert (view[:, 0] == np.arange(first, end)).all()


def test_sliding_rows_refuse_to_continue_where_nothing_is_held():
    rows = SlidingRows(4, 2, np.float32)
    rows.extend(0, numbered(0, 200))
    with pytest.raises(ValueError, match="cannot continue at 7"):
        rows.extend(7, numbered(7, 1))


@given(chunks)
def test_a_copy_of_sliding_rows_does_not_see_what_comes_after(steps):
    rows, end = SlidingRows(8, 2, np.float32), 0
    for count, _ in steps:
        rows.extend(end, numbered(end, count))
        end += count
    frozen = rows.copy(end)
    rows.extend(end, numbered(1000, 3))
    view, first = frozen.extend(end, numbered(end, 1))
    assert (view[:, 0] == np.arange(first, end + 1)).all()


def test_shared_rows_never_overwrite_each_other():
    live = AppendedRows(4)
    live.extend(0, np.full((10, 4), 1, np.uint8))
    snapshot = live.share(8)
    live.extend(6, np.full((5, 4), 2, np.uint8))  # rolled back below the snapshot, then on
    other = snapshot.share(8)
    other.extend(8, np.full((2, 4), 3, np.uint8))
    assert (snapshot.upto(8) == 1).all()
    assert live.upto(11)[:, 0].tolist() == [1] * 6 + [2] * 5
    assert other.upto(10)[:, 0].tolist() == [1] * 8 + [3] * 2


def test_the_owner_appends_after_a_snapshot_without_copying():
    live = AppendedRows(4)
    live.extend(0, np.zeros((8, 4), np.uint8))
    snapshot = live.share(8)
    live.extend(8, np.ones((4, 4), np.uint8))
    assert np.shares_memory(live.upto(8), snapshot.upto(8))
