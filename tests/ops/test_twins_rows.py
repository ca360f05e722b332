"""Norms, queries and stored rows in plain torch: floats near the reference, bytes equal to ops/rows.py."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from ops.cases import EPSILON, KEY_KINDS, KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.test_rounding import nasty_rows
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.rows import decode_rows, encode_rows, hadamard, round_like_keys
from whitedwarf.ops.twins import rows as twin

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 12)
dims = st.sampled_from([64, 128, 256, 512])
ropes = st.sampled_from([16, 32, 64])


def encoded(x: np.ndarray, format: RowFormat) -> np.ndarray:
    return from_device(twin.encode_rows(on_device(x), format))


def decoded(data: np.ndarray, format: RowFormat) -> np.ndarray:
    return from_device(twin.decode_rows(on_device(data), format))


@settings(max_examples=20)
@given(seeds, counts, st.integers(1, 700), st.floats(-30, 30))
def test_rms_norm(seed, n, width, exponent):
    draw = Draw.seeded(seed)
    x, weight = draw.floats(n, width) * np.float32(2.0**exponent), draw.floats(width)
    out = from_device(twin.rms_norm(on_device(x), on_device(weight), EPSILON))
    assert_close(out, REFERENCE.rms_norm(exact(x), exact(weight), EPSILON), 1e-6)


@settings(max_examples=20)
@given(seeds, counts, st.integers(1, 16), dims, ropes)
def test_query(seed, n, heads, width, rope):
    draw = Draw.seeded(seed)
    x, turns = draw.floats(n, heads * width), draw.turns(n, rope)
    out = from_device(twin.query(on_device(x), heads, on_device(turns), EPSILON))
    assert_close(out, REFERENCE.query(exact(x), heads, exact(turns), EPSILON), 1e-6)


@settings(max_examples=60)
@given(seeds, dims, ropes, st.sampled_from(KV_KINDS))
def test_kv_rows_are_stored_bit_for_bit_like_the_reference(seed, width, rope, kind):
    format, x = RowFormat(kind, width, rope), nasty_rows(Draw.seeded(seed), 8, width)
    with np.errstate(over="ignore"):
        expected = encode_rows(x, format)
    assert_same_bits(encoded(x, format), expected)


@settings(max_examples=60)
@given(seeds, st.sampled_from([32, 64, 128, 256]))
def test_keys_are_stored_bit_for_bit_like_the_reference(seed, width):
    format, x = RowFormat(RowKind.PACKED_KEY, width, 16), nasty_rows(Draw.seeded(seed), 8, width)
    assert_same_bits(from_device(twin.hadamard(on_device(x))), hadamard(x))
    assert_same_bits(encoded(x, format), encode_rows(x, format))


@pytest.mark.parametrize("value", [448.0, 464.0, 1e-4, 448 * 2.0**-22, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 0.0, 1e-45])
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_block_maxima_at_the_edge_of_a_scale_round_alike(value, step):
    format = RowFormat(RowKind.PACKED_KV_F16, 128, 64)
    edge = np.float32(value)
    if step:
        edge = np.nextafter(edge, np.float32(step * np.inf))
    x = np.full((1, 128), edge, np.float32)
    x[0, ::3] *= -0.3
    assert_same_bits(encoded(x, format), encode_rows(x, format))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan])
@pytest.mark.parametrize("kind", [RowKind.PACKED_KV, RowKind.PACKED_KV_F16, RowKind.PACKED_KEY])
def test_a_block_with_something_that_is_no_number_is_no_number(kind, value):
    format, x = RowFormat(kind, 192 if kind is not RowKind.PACKED_KEY else 128, 64), Draw.seeded(1).floats(1, 192)
    x = x[:, : format.dims].copy()
    x[0, 3] = value
    with np.errstate(invalid="ignore"):
        expected = encode_rows(x, format)
    out = encoded(x, format)
    if kind is not RowKind.PACKED_KEY:  # a key's codes mean nothing under a scale that is no number
        assert_same_bits(out, expected)
    assert_same_bits(decoded(out, format), decode_rows(expected, format, np.float32))


@settings(max_examples=40)
@given(seeds, dims, ropes, st.sampled_from(KV_KINDS))
def test_stored_rows_are_read_like_the_reference_reads_them(seed, width, rope, kind):
    rows = Draw.seeded(seed).rows(9, RowFormat(kind, width, rope))
    assert_same_bits(decoded(rows.data, rows.format), decode_rows(rows.data, rows.format, np.float32))


@pytest.mark.parametrize("scale", [0, 1, 100, 127, 140, 200, 254, 255])
def test_every_code_under_every_scale_is_read_like_the_reference_reads_it(scale):
    codes = np.setdiff1d(np.arange(256), [0x7F, 0xFF]).astype(np.uint8)  # e4m3's two NaNs never occur
    format = RowFormat(RowKind.PACKED_KV_F16, 272, 16)
    data = np.zeros((1, format.row_bytes), np.uint8)
    data[:, :256], data[:, 256:260] = np.resize(codes, 256), scale
    with np.errstate(over="ignore", under="ignore"):
        expected = decode_rows(data, format, np.float32)
    assert_same_bits(decoded(data, format), expected)


@pytest.mark.parametrize("kind", KEY_KINDS)
@pytest.mark.parametrize("width", [32, 128])
def test_keys_are_read_like_the_reference_reads_them(width, kind):
    rows = Draw.seeded(width).rows(50, RowFormat(kind, width, 16))
    assert_same_bits(decoded(rows.data, rows.format), decode_rows(rows.data, rows.format, np.float32))


@settings(max_examples=25)
@given(seeds, counts, dims, ropes, st.sampled_from(KV_KINDS))
def test_kv_rows_are_the_reference_s_floats_rounded_as_their_format_says(seed, n, width, rope, kind):
    draw = Draw.seeded(seed)
    x, norm, turns = draw.floats(n, width) * 50, draw.floats(width), draw.turns(n, rope)
    inputs, floats = tuple(map(on_device, (x, norm, turns))), RowFormat(RowKind.F32, width, rope)
    plain = from_device(twin.kv_rows(*inputs, EPSILON, floats)).view(np.float32)
    expected = REFERENCE.kv_rows(exact(x), exact(norm), exact(turns), EPSILON, floats).view(np.float32)
    assert_close(plain, expected, 1e-6)
    format = RowFormat(kind, width, rope)
    assert_same_bits(from_device(twin.kv_rows(*inputs, EPSILON, format)), encode_rows(plain, format))


@settings(max_examples=20)
@given(seeds, counts, st.integers(1, 9), st.sampled_from([64, 128]), st.sampled_from(KEY_KINDS))
def test_index_queries_are_rounded_bit_for_bit_like_the_reference(seed, n, heads, width, kind):
    draw, format = Draw.seeded(seed), RowFormat(kind, width, 16)
    x, turns = draw.floats(n, heads * width), draw.turns(n, 16)
    plain = from_device(twin.index_query(on_device(x), heads, on_device(turns), RowFormat(RowKind.F32, width, 16)))
    assert_close(plain, REFERENCE.index_query(exact(x), heads, exact(turns), RowFormat(RowKind.F32, width, 16)), 1e-6)
    out = from_device(twin.index_query(on_device(x), heads, on_device(turns), format))
    assert_same_bits(out, round_like_keys(plain, format))
