"""Norms, hyper-connections, queries, rows and pooling of the MLX twins, against the reference in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import EPSILON, KEY_KINDS, KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact, tensor
from ops.mlx_cases import MLX, both_of, on_mlx
from ops.test_rounding import nasty_rows
from whitedwarf.ops.base import Groups, HyperHeadWeights, HyperMix, HyperSettings, HyperWeights, RowFormat, RowKind
from whitedwarf.ops.mlx_twins import rows as twins
from whitedwarf.ops.rows import decode_rows, encode_rows

pytestmark = pytest.mark.mlx

SETTINGS = HyperSettings(rms_epsilon=1e-6, epsilon=1e-6, iterations=20)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 20)
head_dims = st.sampled_from([64, 128, 256, 512])
rope_dims = st.sampled_from([16, 32, 64])


@settings(max_examples=20)
@given(seeds, counts, st.integers(1, 700), st.floats(-30, 30))
def test_rms_norm(seed, n, dims, exponent):
    draw = Draw.seeded(seed)
    x, weight = draw.floats(n, dims) * np.float32(2.0**exponent), draw.floats(dims)
    assert_close(MLX.rms_norm(x, weight, EPSILON), REFERENCE.rms_norm(exact(x), exact(weight), EPSILON), 1e-6)


@settings(max_examples=20)
@given(seeds, counts, st.sampled_from([16, 64, 100, 256]), st.sampled_from([2, 4]))
def test_hyper_in(seed, n, dims, size):
    draw = Draw.seeded(seed)
    num_mixes = 2 * size + size * size
    mix, reference_mix = both_of(tensor(draw.floats(num_mixes, size * dims) / np.float32(dims**0.5)))
    base, scale, norm = draw.floats(num_mixes), draw.floats(3), draw.floats(dims)
    streams = draw.floats(n, size, dims) * 20
    out, spread = MLX.hyper_in(streams, HyperWeights(mix, base, scale, norm), SETTINGS)
    weights = HyperWeights(reference_mix, exact(base), exact(scale), exact(norm))
    expected, expected_spread = REFERENCE.hyper_in(exact(streams), weights, SETTINGS)
    assert_close(out, expected)
    assert_close(spread.post, expected_spread.post)
    assert_close(spread.combination, expected_spread.combination)


@settings(max_examples=15)
@given(seeds, counts, st.sampled_from([16, 64, 100, 256]))
def test_hyper_out(seed, n, dims):
    draw = Draw.seeded(seed)
    streams, output = draw.floats(n, 4, dims), draw.floats(n, dims)
    mix = HyperMix(draw.floats(n, 4), draw.floats(n, 4, 4))
    expected = REFERENCE.hyper_out(exact(streams), exact(output), HyperMix(exact(mix.post), exact(mix.combination)))
    assert_close(MLX.hyper_out(streams, output, mix), expected, 1e-6)


@settings(max_examples=15)
@given(seeds, counts, st.sampled_from([16, 64, 100, 256]))
def test_hyper_head(seed, n, dims):
    draw = Draw.seeded(seed)
    mix, reference_mix = both_of(tensor(draw.floats(4, 4 * dims) / np.float32(dims**0.5)))
    base, scale, norm, streams = draw.floats(4), draw.floats(1), draw.floats(dims), draw.floats(n, 4, dims)
    out = MLX.hyper_head(streams, HyperHeadWeights(mix, base, scale, norm), SETTINGS)
    weights = HyperHeadWeights(reference_mix, exact(base), exact(scale), exact(norm))
    assert_close(out, REFERENCE.hyper_head(exact(streams), weights, SETTINGS))


@settings(max_examples=15)
@given(seeds, counts, st.integers(1, 64), head_dims, rope_dims)
def test_query(seed, n, heads, dims, rope):
    draw = Draw.seeded(seed)
    x, turns = draw.floats(n, heads * dims), draw.turns(n, rope)
    expected = REFERENCE.query(exact(x), heads, exact(turns), EPSILON)
    assert_close(MLX.query(x, heads, turns, EPSILON), expected, 1e-6)


@settings(max_examples=15)
@given(seeds, counts, head_dims, rope_dims, st.sampled_from(KV_KINDS))
def test_kv_rows_are_the_reference_s_floats_rounded_as_their_format_says(seed, n, dims, rope, kind):
    draw = Draw.seeded(seed)
    x, norm, turns = draw.floats(n, dims) * 50, draw.floats(dims), draw.turns(n, rope)
    floats = RowFormat(RowKind.F32, dims, rope)
    plain = MLX.kv_rows(x, norm, turns, EPSILON, floats).view(np.float32)
    expected = REFERENCE.kv_rows(exact(x), exact(norm), exact(turns), EPSILON, floats).view(np.float32)
    assert_close(plain, expected, 1e-6)
    format = RowFormat(kind, dims, rope)
    assert_same_bits(MLX.kv_rows(x, norm, turns, EPSILON, format), encode_rows(plain, format))


@settings(max_examples=40)
@given(seeds, head_dims, rope_dims, st.sampled_from(KV_KINDS))
def test_kv_rows_are_stored_and_read_bit_for_bit_like_the_reference(seed, dims, rope, kind):
    format, x = RowFormat(kind, dims, rope), nasty_rows(Draw.seeded(seed), 8, dims)
    with np.errstate(over="ignore"):
        expected = encode_rows(x, format)
    stored = twins.encode_rows(on_mlx(x), format)
    assert_same_bits(np.array(stored), expected)
    assert_same_bits(np.array(twins.decode_rows(stored, format)), decode_rows(expected, format, np.float32))


@settings(max_examples=40)
@given(seeds, st.sampled_from([32, 64, 128, 256]), st.sampled_from(KEY_KINDS))
def test_keys_are_stored_and_read_bit_for_bit_like_the_reference(seed, dims, kind):
    format, x = RowFormat(kind, dims, 16), nasty_rows(Draw.seeded(seed), 8, dims)
    with np.errstate(over="ignore"):
        expected = encode_rows(x, format)
    stored = twins.encode_rows(on_mlx(x), format)
    assert_same_bits(np.array(stored), expected)
    assert_same_bits(np.array(twins.decode_rows(stored, format)), decode_rows(expected, format, np.float32))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan, 3e38])
@pytest.mark.parametrize("kind", [RowKind.PACKED_KV, RowKind.PACKED_KEY])
def test_blocks_with_an_infinity_or_a_nan_are_stored_like_the_reference_s(value, kind):
    format, x = RowFormat(kind, 128, 64), Draw.seeded(5).floats(2, 128)
    x[1, 7] = value
    with np.errstate(all="ignore"):
        expected = decode_rows(encode_rows(x, format), format, np.float32)
    ours = np.array(twins.decode_rows(twins.encode_rows(on_mlx(x), format), format))
    np.testing.assert_array_equal(ours, expected)


@settings(max_examples=15)
@given(seeds, counts, st.integers(1, 16), st.sampled_from([64, 128]), st.sampled_from([16, 64]))
def test_index_query(seed, n, heads, dims, rope):
    draw = Draw.seeded(seed)
    x, turns = draw.floats(n, heads * dims), draw.turns(n, rope)
    plain = MLX.index_query(x, heads, turns, RowFormat(RowKind.F16, dims, rope))
    expected = REFERENCE.index_query(exact(x), heads, exact(turns), RowFormat(RowKind.F16, dims, rope))
    assert_close(plain, expected, 1e-6)
    format = RowFormat(RowKind.PACKED_KEY, dims, rope)
    rounded = decode_rows(encode_rows(plain.reshape(-1, dims), format), format, np.float32)
    assert_same_bits(MLX.index_query(x, heads, turns, format), rounded.reshape(n, heads, dims))


@pytest.mark.parametrize(("ratio", "first", "groups"), [(4, 0, 3), (4, 8, 2), (4, 5, 4), (128, 0, 2), (128, 100, 1)])
@pytest.mark.parametrize("dims", [64, 512])
def test_compress(ratio, first, groups, dims):
    draw = Draw.seeded(ratio + first)
    width = 2 * dims if ratio == 4 else dims
    first_group = 0 if first == 0 else -(-first // ratio) + 1
    span = Groups(first_group, first_group + groups, ratio)
    positions = span.end * ratio - first + 3
    values, gates = draw.floats(positions, width), draw.floats(positions, width) * 4
    ape, norm, turns = draw.floats(ratio, width), draw.floats(dims), draw.turns(groups, 64)
    floats = RowFormat(RowKind.F32, dims, 64)
    plain = MLX.compress(values, gates, first, span, ape, norm, turns, EPSILON, floats).view(np.float32)
    inputs = exact(values), exact(gates), first, span, exact(ape), exact(norm), exact(turns)
    assert_close(plain, REFERENCE.compress(*inputs, EPSILON, floats).view(np.float32))
    for kind in KV_KINDS:
        format = RowFormat(kind, dims, 64)
        stored = MLX.compress(values, gates, first, span, ape, norm, turns, EPSILON, format)
        assert_same_bits(stored, encode_rows(plain, format))


def test_compress_without_a_finished_group_is_empty():
    draw, format = Draw.seeded(0), RowFormat(RowKind.PACKED_KV_F16, 64, 16)
    x, ape, norm = draw.floats(3, 128), draw.floats(4, 128), draw.floats(64)
    out = MLX.compress(x, x, 0, Groups(0, 0, 4), ape, norm, draw.turns(0, 16), EPSILON, format)
    assert out.shape == (0, format.row_bytes)
