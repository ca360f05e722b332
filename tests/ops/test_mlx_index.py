"""The indexer of the MLX twins: exactly the reference's picks where scores are exact, and near ones elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import KEY_KINDS, REFERENCE, Draw, exact
from ops.mlx_cases import MLX
from ops.test_cpu_index import repeated_keys, simple_floats
from whitedwarf.ops.base import RowFormat, RowKind, Rows
from whitedwarf.ops.rows import decode_rows

pytestmark = pytest.mark.mlx


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.sampled_from([32, 64, 128]),
    st.sampled_from(KEY_KINDS), st.integers(1, 300), st.integers(1, 70),
)  # fmt: skip
def test_the_best_keys_are_picked_and_ties_go_to_the_lowest_row(seed, n, heads, dims, kind, num_keys, top):
    draw, format = Draw.seeded(seed), RowFormat(kind, dims, 16)
    keys = repeated_keys(draw, num_keys, format)
    counts = draw.rng.integers(0, num_keys + 1, n).astype(np.int32)
    # weights that are sums of few powers of two keep the scores exact
    queries, weights = simple_floats(draw, n, heads, dims), simple_floats(draw, n, heads)
    if kind is RowKind.PACKED_KEY:
        queries = MLX.index_query(queries.reshape(n, -1), heads, draw.turns(n, 0), format)
    picked = MLX.index_pick(queries, weights, keys, counts, top)
    expected = REFERENCE.index_pick(exact(queries), exact(weights), keys, counts, top)
    np.testing.assert_array_equal(picked, expected)


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_random_keys_are_picked_by_their_float64_scores(kind):
    draw, format = Draw.seeded(3), RowFormat(kind, 128, 64)
    keys = draw.rows(2000, format)
    queries = MLX.index_query(draw.floats(2, 8 * 128), 8, draw.turns(2, 64), format)
    weights = draw.floats(2, 8) / 30
    picked = MLX.index_pick(queries, weights, keys, np.array([2000, 1777], np.int32), 512)
    table = decode_rows(keys.data, format, np.float64)
    for row, query, weight, count in zip(picked, exact(queries), exact(weights), (2000, 1777), strict=True):
        scores = weight @ np.maximum(query @ table[:count].T, 0)
        missed = np.setdiff1d(np.argsort(-scores)[:512], row)
        assert (np.diff(row) > 0).all()
        assert (scores[missed] <= scores[row].min() + 1e-5).all()


def test_fewer_keys_than_wanted_are_all_picked():
    draw, format = Draw.seeded(5), RowFormat(RowKind.PACKED_KEY, 32, 16)
    keys, queries, weights = draw.rows(6, format), draw.floats(2, 1, 32), draw.floats(2, 1)
    picked = MLX.index_pick(queries, weights, keys, np.array([0, 6], np.int32), 8)
    np.testing.assert_array_equal(picked, [[-1] * 8, [0, 1, 2, 3, 4, 5, -1, -1]])


def test_without_any_key_nothing_is_picked():
    format = RowFormat(RowKind.PACKED_KEY, 32, 16)
    keys = Rows(format, np.empty((0, format.row_bytes), np.uint8), 0)
    queries, weights = np.ones((2, 1, 32), np.float32), np.ones((2, 1), np.float32)
    np.testing.assert_array_equal(MLX.index_pick(queries, weights, keys, np.zeros(2, np.int32), 3), [[-1] * 3] * 2)
