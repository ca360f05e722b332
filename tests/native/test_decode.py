"""Weights to float32 and activations to integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.weights import FLOATS, LEVELS, QUANTISED, random_weights
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.types import GgmlType

KERNELS = {level: Kernels(2, level) for level in LEVELS}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", QUANTISED + FLOATS)
@pytest.mark.parametrize("columns", [256, 768])
def test_dequantize_equals_the_python_codec(type, level, columns):
    weights = random_weights(np.random.default_rng(1), type, (7, columns), offset=2)
    out = np.empty((7, columns), np.float32)
    KERNELS[level].dequantize(weights.matrix, out)
    np.testing.assert_allclose(out, weights.exact(), rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", [GgmlType.Q8_0, GgmlType.MXFP4, *FLOATS])
def test_rows_may_end_inside_a_superblock(type, level):
    weights = random_weights(np.random.default_rng(2), type, (2, 3, 96))
    out = np.empty((6, 96), np.float32)
    KERNELS[level].dequantize(weights.matrix, out)
    np.testing.assert_allclose(out, weights.exact().reshape(6, 96), rtol=2e-7)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", [GgmlType.F16, GgmlType.BF16, GgmlType.F32])
def test_every_16_bit_float_decodes_exactly(type, level):
    bits = np.arange(65536, dtype=np.uint16)
    data = bits.view(np.uint8) if type != GgmlType.F32 else (bits.astype(np.uint32) << 16).view(np.uint8)
    out = np.empty((256, 256), np.float32)
    KERNELS[level].dequantize(Matrix(data, int(type), (256, 256)), out)
    expected = decode(data, type, (256, 256))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", QUANTISED + FLOATS)
def test_embed_picks_rows(type, level):
    weights = random_weights(np.random.default_rng(3), type, (11, 256))
    every = np.empty((11, 256), np.float32)
    KERNELS[level].dequantize(weights.matrix, every)
    ids = np.array([10, 0, 3, 3], np.int32)
    out = np.empty((4, 256), np.float32)
    KERNELS[level].embed(weights.matrix, ids, out)
    np.testing.assert_array_equal(out, every[ids])


def quantise(level, x):
    q, scales = np.empty(x.shape, np.int8), np.empty((x.shape[0], x.shape[1] // 32), np.float32)
    KERNELS[level].quantize_activations(x, q, scales)
    return q, scales


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.integers(-38, 30))
def test_activations_follow_their_definition(level, seed, rows, blocks, exponent):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((rows, blocks * 32)) * 10.0**exponent).astype(np.float32)
    q, scales = quantise(level, x)
    d = np.abs(x).reshape(rows, blocks, 32).max(-1) / np.float32(127)
    d[d < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(scales, d)
    with np.errstate(all="ignore"):
        expected = np.rint(x.reshape(rows, blocks, 32) / d[..., None])
    expected[d == 0] = 0
    np.testing.assert_array_equal(q.reshape(rows, blocks, 32), expected)


@pytest.mark.parametrize("level", LEVELS)
def test_halves_round_to_even(level):
    x = np.zeros((1, 32), np.float32)
    x[0, :6] = [127, 0.5, 1.5, 2.5, -0.5, -1.5]
    q, scales = quantise(level, x)
    assert scales[0, 0] == 1
    assert q[0, :6].tolist() == [127, 0, 2, 2, 0, -2]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_block_that_is_not_finite_has_a_nan_scale(level, odd):
    x = np.ones((1, 64), np.float32)
    x[0, 40] = odd
    q, scales = quantise(level, x)
    assert np.isnan(scales[0]).tolist() == [False, True]
    assert q[0].tolist() == [127] * 32 + [0] * 32
