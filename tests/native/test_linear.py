"""Matrix products: against float64, against exact integers, between levels, and for every split of the batch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.weights import FLOATS, LEVELS, QUANTISED, linear, random_rows, random_weights
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.types import GgmlType

KERNELS = {level: Kernels(1, level) for level in LEVELS}
TWO_THREADS = {level: Kernels(2, level) for level in LEVELS}
ALL = QUANTISED + FLOATS

types = st.sampled_from(ALL)
levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32 - 1)


def columns_of(data: st.DataObject, type: GgmlType) -> int:
    if type in FLOATS:
        return data.draw(st.integers(1, 300), label="columns")
    return type.block_size * data.draw(st.integers(1, 3 if type.block_size == 256 else 20), label="blocks")


@settings(max_examples=150, deadline=None)
@given(st.data(), types, levels, seeds, st.integers(1, 70), st.integers(1, 60), st.sampled_from([0, 1, 2, 32]))
def test_float_activations_give_the_float64_product(data, type, level, seed, rows, n, offset):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, type, (rows, columns_of(data, type)), offset)
    x = random_rows(rng, n, weights.shape[1])
    exact = weights.exact()
    size = np.abs(x.astype(np.float64)) @ np.abs(exact).T
    error = np.abs(linear(KERNELS[level], x, weights, quality=True) - x.astype(np.float64) @ exact.T)
    assert (error <= 1e-5 * size).all()


@settings(max_examples=150, deadline=None)
@given(st.data(), types, st.booleans(), seeds, st.integers(1, 70), st.integers(1, 60), st.sampled_from([0, 1, 2, 32]))
def test_every_level_gives_the_same_bits(data, type, quality, seed, rows, n, offset):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, type, (rows, columns_of(data, type)), offset)
    x = random_rows(rng, n, weights.shape[1]) * rng.uniform(0, 100)
    expected = linear(KERNELS["scalar"], x.astype(np.float32), weights, quality)
    for level in LEVELS[1:]:
        np.testing.assert_array_equal(linear(KERNELS[level], x.astype(np.float32), weights, quality), expected)


@pytest.mark.parametrize("type", [*FLOATS, GgmlType.Q8_0, GgmlType.Q2_K])
@pytest.mark.parametrize(("rows", "columns", "n"), [(70, 1280, 101), (3, 2560, 25), (131, 512, 24), (5, 768, 195)])
def test_products_beyond_one_block_of_the_caches_have_the_bits_of_the_scalar_level(type, rows, columns, n):
    """Float activations: blocks of 512 columns, 96 activation rows and 64 weight rows must fit together."""
    rng = np.random.default_rng(14)
    columns += 7 if type in FLOATS else 0
    weights = random_weights(rng, type, (rows, columns), 2)
    x = random_rows(rng, n, columns)
    expected = linear(KERNELS["scalar"], x, weights, quality=True)
    for level in LEVELS[1:]:
        np.testing.assert_array_equal(linear(TWO_THREADS[level], x, weights, quality=True), expected)
        np.testing.assert_array_equal(linear(KERNELS[level], x[:9], weights, quality=True), expected[:9])


@settings(max_examples=100, deadline=None)
@given(st.data(), types, levels, st.booleans(), seeds, st.integers(1, 70), st.integers(2, 40))
def test_a_row_does_not_depend_on_its_batch_or_the_threads(data, type, level, quality, seed, rows, n):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, type, (rows, columns_of(data, type)))
    x = random_rows(rng, n, weights.shape[1])
    together = linear(KERNELS[level], x, weights, quality)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=4), label="cuts")), n]
    parts = [linear(TWO_THREADS[level], x[a:b], weights, quality) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), together)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", QUANTISED)
def test_integer_activations_stay_near_the_float64_product(type, level):
    rng = np.random.default_rng(5)
    weights = random_weights(rng, type, (48, 1024))
    x = random_rows(rng, 24, 1024)
    expected = x.astype(np.float64) @ weights.exact().T
    for rows in (x, x[:1]):
        got = linear(KERNELS[level], rows, weights, quality=False)
        assert np.linalg.norm(got - expected[: len(rows)]) <= 1e-2 * np.linalg.norm(expected[: len(rows)])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("extreme", [-128, 127])
@pytest.mark.parametrize("n", [1, 3, 24])
def test_integer_sums_are_exact(level, extreme, n):
    """With all scales one, the product of integers must come out to the last unit, at the extremes too."""
    rng = np.random.default_rng(6)
    codes = rng.choice(np.array([extreme, -127, 0, 127], np.int8), (40, 96))
    codes[:, :32] = extreme
    blocks = np.zeros((40, 3, 34), np.uint8)
    blocks[:, :, :2] = np.array([1.0], np.float16).view(np.uint8)
    blocks[:, :, 2:] = codes.reshape(40, 3, 32).view(np.uint8)
    x = rng.integers(-127, 128, (n, 96)).astype(np.float32)
    x[:, ::32] = 127
    x[:, :32] = 127
    out = np.empty((n, 40), np.float32)
    KERNELS[level].linear(x, Matrix(blocks.reshape(-1), int(GgmlType.Q8_0), (40, 96)), out, False)
    np.testing.assert_array_equal(out, x.astype(np.int64) @ codes.astype(np.int64).T)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", ALL)
@pytest.mark.parametrize("quality", [False, True])
def test_what_meets_an_infinity_or_a_nan_is_not_finite_and_nothing_else_changes(type, level, quality):
    rng = np.random.default_rng(7)
    weights = random_weights(rng, type, (33, 256))
    x = random_rows(rng, 12, 256)
    clean = linear(KERNELS[level], x, weights, quality)
    x[3, 17], x[5, 200] = np.inf, np.nan
    got = linear(KERNELS[level], x, weights, quality)
    others = [i for i in range(12) if i not in (3, 5)]
    np.testing.assert_array_equal(got[others], clean[others])
    assert np.isnan(got[5]).all()
    assert not np.isfinite(got[3]).all()


@settings(max_examples=50, deadline=None)
@given(types, levels, st.booleans(), seeds, st.integers(1, 4), st.integers(1, 40), st.integers(1, 12))
def test_grouped_linear_is_one_linear_per_group(type, level, quality, seed, groups, rows, n):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, type, (groups * rows, 256))
    x = random_rows(rng, n, groups * 256)
    out = np.empty((n, groups * rows), np.float32)
    TWO_THREADS[level].grouped_linear(x, weights.matrix, out, groups, quality)
    per_group = weights.data.reshape(groups, -1)
    for g in range(groups):
        expected = np.empty((n, rows), np.float32)
        matrix = Matrix(per_group[g], int(type), (rows, 256))
        KERNELS[level].linear(np.ascontiguousarray(x[:, g * 256 : (g + 1) * 256]), matrix, expected, quality)
        np.testing.assert_array_equal(out[:, g * rows : (g + 1) * rows], expected)


def test_no_rows_are_no_work():
    weights = random_weights(np.random.default_rng(8), GgmlType.Q8_0, (5, 64))
    assert linear(KERNELS["scalar"], np.empty((0, 64), np.float32), weights, quality=False).shape == (0, 5)
