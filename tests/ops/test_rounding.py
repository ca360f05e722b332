"""Stored rows in native code are those of ops/rows.py, bit for bit, whatever floats come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, KEY_KINDS, KV_KINDS, LEVELS, Draw, assert_same_bits
from whitedwarf.ops.base import RowFormat, RowKind, Rows
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.rows import decode_rows, encode_rows, round_like_keys

levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32 - 1)
# Halves, quarters and eighths of a step beside every code: ties and near-ties of e4m3 and e2m1 under any block scale.
CODE_EDGES = np.array([m / 32 for m in range(8 * 32)] + [448, 447, 464, 432, 240, 0.0625, 2.0**-9, 2.0**-10, 3e-3])
EXTREMES = np.array([0.0, -0.0, 1e-45, 1e-38, -1e-42, 1e-4, 448e-4, 65504, 65519.9, 65520, 2.0**-24, 2.0**-25, 1e30])


def encode(ops: CpuOps, x: np.ndarray, format: RowFormat) -> np.ndarray:
    out = np.empty((len(x), format.row_bytes), np.uint8)
    ops.kernels.encode_rows(x, ops._format(format), out)
    return out


def nasty_rows(draw: Draw, n: int, dims: int) -> np.ndarray:
    """Rows that mix plain numbers with exact ties, both zeros, subnormals and the edges of the ranges."""
    plain = draw.floats(n, dims) * np.exp2(draw.rng.integers(-30, 12, (n, 1))).astype(np.float32)
    edges = draw.rng.choice(CODE_EDGES, (n, dims)) * np.exp2(draw.rng.integers(-12, 8, (n, 1)))
    edges *= draw.rng.choice([-1, 1], (n, dims))
    extremes = draw.rng.choice(EXTREMES, (n, dims))
    choice = draw.rng.choice(3, (n, dims), p=[0.3, 0.69, 0.01])
    return np.choose(choice, [plain, edges, extremes]).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([64, 128, 256, 512]), st.sampled_from([16, 32, 64]), st.sampled_from(KV_KINDS))
def test_kv_rows_are_stored_bit_for_bit_like_the_reference(seed, dims, rope, kind):
    format, x = RowFormat(kind, dims, rope), nasty_rows(Draw.seeded(seed), 8, dims)
    with np.errstate(over="ignore"):
        expected = encode_rows(x, format)
    assert_same_bits(encode(CPU["scalar"], x, format), expected)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([32, 64, 128, 256]))
def test_keys_are_stored_bit_for_bit_like_the_reference(seed, dims):
    format, x = RowFormat(RowKind.PACKED_KEY, dims, 16), nasty_rows(Draw.seeded(seed), 8, dims)
    assert_same_bits(encode(CPU["scalar"], x, format), encode_rows(x, format))


@pytest.mark.parametrize("value", [448.0, 464.0, 1e-4, 448 * 2.0**-22, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 0.0, 1e-45])
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_block_maxima_at_the_edge_of_a_scale_round_alike(value, step):
    format = RowFormat(RowKind.PACKED_KV_F16, 128, 64)
    edge = np.float32(value)
    for _ in range(abs(step)):
        edge = np.nextafter(edge, np.float32(np.inf if step > 0 else -np.inf))
    x = np.full((1, 128), edge, np.float32)
    x[0, ::3] *= -0.3
    assert_same_bits(encode(CPU["scalar"], x, format), encode_rows(x, format))


def test_every_float16_is_reached_and_read_alike():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate([halves, middles, np.nextafter(middles, 0), np.nextafter(middles, np.float32(1e9))])
    x = np.resize(np.concatenate([x, -x]), (400, 512))
    format = RowFormat(RowKind.F16, 512, 64)
    assert_same_bits(encode(CPU["scalar"], x, format), encode_rows(x, format))


@settings(max_examples=40, deadline=None)
@given(levels, seeds, st.sampled_from([64, 128, 256, 512]), st.sampled_from([16, 32, 64]), st.sampled_from(KV_KINDS))
def test_stored_rows_are_read_like_the_reference_reads_them(level, seed, dims, rope, kind):
    rows = Draw.seeded(seed).rows(9, RowFormat(kind, dims, rope))
    assert_same_bits(CPU[level].decode_rows(rows), decode_rows(rows.data, rows.format, np.float32))


@pytest.mark.parametrize("level", LEVELS)
def test_every_code_under_every_scale_is_read_like_the_reference_reads_it(level):
    codes = np.setdiff1d(np.arange(256), [0x7F, 0xFF]).astype(np.uint8)  # e4m3's two NaNs never occur
    for scale in (1, 100, 127, 140, 200):
        data = np.zeros((4, 256 + 4 + 32), np.uint8)
        data[:, :256], data[:, 256:260] = np.resize(codes, 256), scale
        format = RowFormat(RowKind.PACKED_KV_F16, 272, 16)
        data = np.ascontiguousarray(np.resize(data, (4, format.row_bytes)))
        data[:, :256], data[:, 256:260], data[:, 260:] = np.resize(codes, 256), scale, 0
        assert_same_bits(CPU[level].decode_rows(Rows(format, data, 0)), decode_rows(data, format, np.float32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dims", [32, 64, 128, 256])
def test_keys_are_read_like_the_reference_reads_them(level, dims):
    draw = Draw.seeded(dims)
    for kind in KEY_KINDS:
        rows = draw.rows(50, RowFormat(kind, dims, 16))
        assert_same_bits(CPU[level].decode_rows(rows), decode_rows(rows.data, rows.format, np.float32))


@settings(max_examples=40, deadline=None)
@given(levels, seeds, st.integers(1, 5), st.integers(1, 9), st.sampled_from([32, 64, 128, 256]))
def test_index_queries_are_rounded_bit_for_bit_like_the_reference(level, seed, n, heads, dims):
    draw, ops = Draw.seeded(seed), CPU[level]
    x, turns = nasty_rows(draw, n, heads * dims), draw.turns(n, 16)
    plain = ops.index_query(x, heads, turns, RowFormat(RowKind.F32, dims, 16))
    format = RowFormat(RowKind.PACKED_KEY, dims, 16)
    assert_same_bits(ops.index_query(x, heads, turns, format), round_like_keys(plain, format))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
@pytest.mark.parametrize("kind", [RowKind.PACKED_KV, RowKind.PACKED_KV_F16, RowKind.PACKED_KEY])
def test_a_block_with_something_that_is_no_number_is_no_number(kind, value, level):
    format, x = RowFormat(kind, 192 if kind is not RowKind.PACKED_KEY else 128, 64), Draw.seeded(1).floats(1, 192)
    x = x[:, : format.dims].copy()
    x[0, 3] = value
    spoilt = 64 if kind is not RowKind.PACKED_KEY else 128  # a key is rotated: all of it
    rows = Rows(format, encode(CPU[level], x, format), 0)
    with np.errstate(invalid="ignore"):
        expected = decode_rows(encode_rows(x, format), format, np.float32)
    for out in (CPU[level].decode_rows(rows), decode_rows(rows.data, format, np.float32), expected):
        assert np.isnan(out[0, :spoilt]).all()
        assert np.isfinite(out[0, spoilt:]).all()
