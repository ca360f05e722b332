"""The indexer of the native backend: exactly the reference's picks where scores are exact, and near ones elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, KEY_KINDS, LEVELS, REFERENCE, Draw, assert_close, exact
from whitedwarf.ops.base import RowFormat, RowKind, Rows
from whitedwarf.ops.rows import decode_rows, encode_rows

levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32 - 1)


def simple_floats(draw: Draw, *shape: int) -> np.ndarray:
    """Numbers whose sums of products are exact in float32."""
    return draw.rng.choice(np.array([-2, -1, -0.5, 0, 0.5, 1, 3], np.float32), shape)


def repeated_keys(draw: Draw, count: int, format: RowFormat) -> Rows:
    """Few different keys, each many times: ties everywhere."""
    different = encode_rows(simple_floats(draw, max(1, count // 5), format.dims), format)
    return Rows(format, different[draw.rng.integers(0, len(different), count)], 0)


@settings(max_examples=60, deadline=None)
@given(
    levels, seeds, st.integers(1, 12), st.integers(1, 12), st.sampled_from([32, 64, 128]), st.sampled_from(KEY_KINDS),
    st.integers(1, 300), st.integers(1, 70),
)  # fmt: skip
def test_the_best_keys_are_picked_and_ties_go_to_the_lowest_row(level, seed, n, heads, dims, kind, num_keys, top):
    draw, format, ops = Draw.seeded(seed), RowFormat(kind, dims, 16), CPU[level]
    keys = repeated_keys(draw, num_keys, format)
    counts = draw.rng.integers(0, num_keys + 1, n).astype(np.int32)
    # weights that are sums of few powers of two keep the scores exact
    queries, weights = simple_floats(draw, n, heads, dims), simple_floats(draw, n, heads)
    if kind is RowKind.PACKED_KEY:
        queries = ops.index_query(queries.reshape(n, -1), heads, draw.turns(n, 0), format)
    picked = ops.index_pick(queries, weights, keys, counts, top)
    expected = REFERENCE.index_pick(exact(queries), exact(weights), keys, counts, top)
    np.testing.assert_array_equal(picked, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KEY_KINDS)
def test_random_keys_are_picked_by_their_float64_scores(level, kind):
    draw, format, ops = Draw.seeded(3), RowFormat(kind, 128, 64), CPU[level]
    keys = draw.rows(2000, format)
    queries = ops.index_query(draw.floats(2, 64 * 128), 64, draw.turns(2, 64), format)
    weights = draw.floats(2, 64) / 90
    picked = ops.index_pick(queries, weights, keys, np.array([2000, 1777], np.int32), 512)
    table = decode_rows(keys.data, format, np.float64)
    for row, query, weight, count in zip(picked, exact(queries), exact(weights), (2000, 1777), strict=True):
        scores = weight @ np.maximum(query @ table[:count].T, 0)
        missed = np.setdiff1d(np.argsort(-scores)[:512], row)
        assert (np.diff(row) > 0).all()
        assert (scores[missed] <= scores[row].min() + 1e-5).all()


@pytest.mark.parametrize("level", LEVELS)
def test_queries_off_the_fp4_grid_are_scored_as_floats(level):
    draw, format = Draw.seeded(4), RowFormat(RowKind.PACKED_KEY, 64, 16)
    keys, queries, weights = draw.rows(200, format), draw.floats(1, 3, 64), np.abs(draw.floats(1, 3))
    counts = np.array([200], np.int32)
    picked = CPU[level].index_pick(queries, weights, keys, counts, 20)
    np.testing.assert_array_equal(picked, REFERENCE.index_pick(exact(queries), exact(weights), keys, counts, 20))


@settings(max_examples=20, deadline=None)
@given(levels, seeds, st.integers(1, 20), st.integers(1, 16), st.sampled_from([64, 128]), st.sampled_from([16, 64]))
def test_index_query_without_rounding(level, seed, n, heads, dims, rope):
    draw, format = Draw.seeded(seed), RowFormat(RowKind.F16, dims, rope)
    x, turns = draw.floats(n, heads * dims), draw.turns(n, rope)
    expected = REFERENCE.index_query(exact(x), heads, exact(turns), format)
    assert_close(CPU[level].index_query(x, heads, turns, format), expected, 1e-6)


def test_fewer_keys_than_wanted_are_all_picked():
    draw, format = Draw.seeded(5), RowFormat(RowKind.PACKED_KEY, 32, 16)
    keys, queries, weights = draw.rows(6, format), draw.floats(2, 1, 32), draw.floats(2, 1)
    picked = CPU["scalar"].index_pick(queries, weights, keys, np.array([0, 6], np.int32), 8)
    np.testing.assert_array_equal(picked, [[-1] * 8, [0, 1, 2, 3, 4, 5, -1, -1]])


def test_counts_beyond_the_keys_are_refused():
    draw, format = Draw.seeded(6), RowFormat(RowKind.PACKED_KEY, 32, 16)
    with pytest.raises(ValueError, match="counts must be 0 to 6; got 7"):
        CPU["scalar"].index_pick(
            draw.floats(1, 1, 32), draw.floats(1, 1), draw.rows(6, format), np.array([7], np.int32), 2
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("heads", [5, 16, 64])
@pytest.mark.parametrize("spread", [0, 3, 4, 60])
def test_blocks_of_any_scales_give_the_picks_of_the_scalar_level(level, heads, spread):
    """Keys whose four powers of two lie near each other share one; the others, and queries far apart, do not."""
    draw, format, count, n = Draw.seeded(7), RowFormat(RowKind.PACKED_KEY, 128, 64), 1003, 11
    data = draw.rng.integers(0, 256, (count, 68)).astype(np.uint8)
    data[:, 64:] = 125 + draw.rng.integers(-1, 2, (count, 1)) + draw.rng.integers(0, spread + 1, (count, 4))
    data[::3, 64:] = 126  # some of each kind in every group
    keys, counts = Rows(format, data, 0), np.arange(count - n + 1, count + 1, dtype=np.int32)
    queries = CPU["scalar"].index_query(draw.floats(n, heads * 128), heads, draw.turns(n, 64), format)
    queries[1, 0, :32] *= 2.0**10
    weights = draw.floats(n, heads) / 90
    weights[2, 1], weights[3, 0] = 0, 1e-20
    picks = [CPU[name].index_pick(queries, weights, keys, counts, 300) for name in (level, "scalar")]
    np.testing.assert_array_equal(*picks)
