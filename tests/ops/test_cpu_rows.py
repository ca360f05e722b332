"""Norms, hyper-connections, queries, rows and pooling of the native backend, against the reference in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, EPSILON, KV_KINDS, LEVELS, REFERENCE, Draw, assert_close, assert_same_bits, both, exact
from whitedwarf.ops.base import Groups, HyperHeadWeights, HyperMix, HyperSettings, HyperWeights, RowFormat, RowKind
from whitedwarf.ops.rows import encode_rows

SETTINGS = HyperSettings(rms_epsilon=1e-6, epsilon=1e-6, iterations=20)
levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 20)
head_dims = st.sampled_from([64, 128, 256, 512])
rope_dims = st.sampled_from([16, 32, 64])


@settings(max_examples=30, deadline=None)
@given(levels, seeds, counts, st.integers(1, 700), st.floats(-30, 30))
def test_rms_norm(level, seed, n, dims, exponent):
    draw = Draw.seeded(seed)
    x, weight = draw.floats(n, dims) * np.float32(2.0**exponent), draw.floats(dims)
    assert_close(CPU[level].rms_norm(x, weight, EPSILON), REFERENCE.rms_norm(exact(x), exact(weight), EPSILON), 1e-6)


@settings(max_examples=30, deadline=None)
@given(levels, seeds, counts, st.sampled_from([16, 64, 100, 256]), st.sampled_from([2, 4]))
def test_hyper_in(level, seed, n, dims, size):
    draw, ops = Draw.seeded(seed), CPU[level]
    num_mixes = 2 * size + size * size
    mix, reference_mix = both(draw.floats(num_mixes, size * dims) / np.float32(dims**0.5), ops)
    base, scale, norm = draw.floats(num_mixes), draw.floats(3), draw.floats(dims)
    streams = draw.floats(n, size, dims) * 20
    out, spread = ops.hyper_in(streams, HyperWeights(mix, base, scale, norm), SETTINGS)
    weights = HyperWeights(reference_mix, exact(base), exact(scale), exact(norm))
    expected, expected_spread = REFERENCE.hyper_in(exact(streams), weights, SETTINGS)
    assert_close(out, expected)
    assert_close(spread.post, expected_spread.post)
    assert_close(spread.combination, expected_spread.combination)


@settings(max_examples=20, deadline=None)
@given(levels, seeds, counts, st.sampled_from([16, 64, 100, 256]))
def test_hyper_out(level, seed, n, dims):
    draw = Draw.seeded(seed)
    streams, output = draw.floats(n, 4, dims), draw.floats(n, dims)
    mix = HyperMix(draw.floats(n, 4), draw.floats(n, 4, 4))
    expected = REFERENCE.hyper_out(exact(streams), exact(output), HyperMix(exact(mix.post), exact(mix.combination)))
    assert_close(CPU[level].hyper_out(streams, output, mix), expected, 1e-6)


@settings(max_examples=20, deadline=None)
@given(levels, seeds, counts, st.sampled_from([16, 64, 100, 256]))
def test_hyper_head(level, seed, n, dims):
    draw, ops = Draw.seeded(seed), CPU[level]
    mix, reference_mix = both(draw.floats(4, 4 * dims) / np.float32(dims**0.5), ops)
    base, scale, norm, streams = draw.floats(4), draw.floats(1), draw.floats(dims), draw.floats(n, 4, dims)
    out = ops.hyper_head(streams, HyperHeadWeights(mix, base, scale, norm), SETTINGS)
    weights = HyperHeadWeights(reference_mix, exact(base), exact(scale), exact(norm))
    assert_close(out, REFERENCE.hyper_head(exact(streams), weights, SETTINGS))


@settings(max_examples=25, deadline=None)
@given(levels, seeds, counts, st.integers(1, 64), head_dims, rope_dims)
def test_query(level, seed, n, heads, dims, rope):
    draw = Draw.seeded(seed)
    x, turns = draw.floats(n, heads * dims), draw.turns(n, rope)
    expected = REFERENCE.query(exact(x), heads, exact(turns), EPSILON)
    assert_close(CPU[level].query(x, heads, turns, EPSILON), expected, 1e-6)


@settings(max_examples=25, deadline=None)
@given(levels, seeds, counts, head_dims, rope_dims, st.sampled_from(KV_KINDS))
def test_kv_rows_are_the_reference_s_floats_rounded_as_their_format_says(level, seed, n, dims, rope, kind):
    draw, ops = Draw.seeded(seed), CPU[level]
    x, norm, turns = draw.floats(n, dims) * 50, draw.floats(dims), draw.turns(n, rope)
    floats = RowFormat(RowKind.F32, dims, rope)
    plain = ops.kv_rows(x, norm, turns, EPSILON, floats).view(np.float32)
    expected = REFERENCE.kv_rows(exact(x), exact(norm), exact(turns), EPSILON, floats).view(np.float32)
    assert_close(plain, expected, 1e-6)
    format = RowFormat(kind, dims, rope)
    assert_same_bits(ops.kv_rows(x, norm, turns, EPSILON, format), encode_rows(plain, format))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("ratio", "first", "groups"), [(4, 0, 3), (4, 8, 2), (4, 5, 4), (128, 0, 2), (128, 100, 1)])
@pytest.mark.parametrize("dims", [64, 512])
def test_compress(level, ratio, first, groups, dims):
    draw, ops = Draw.seeded(ratio + first), CPU[level]
    width = 2 * dims if ratio == 4 else dims
    first_group = 0 if first == 0 else -(-first // ratio) + 1
    span = Groups(first_group, first_group + groups, ratio)
    positions = span.end * ratio - first + 3
    values, gates = draw.floats(positions, width), draw.floats(positions, width) * 4
    ape, norm, turns = draw.floats(ratio, width), draw.floats(dims), draw.turns(groups, 64)
    floats = RowFormat(RowKind.F32, dims, 64)
    plain = ops.compress(values, gates, first, span, ape, norm, turns, EPSILON, floats).view(np.float32)
    inputs = exact(values), exact(gates), first, span, exact(ape), exact(norm), exact(turns)
    assert_close(plain, REFERENCE.compress(*inputs, EPSILON, floats).view(np.float32))
    for kind in KV_KINDS:
        format = RowFormat(kind, dims, 64)
        stored = ops.compress(values, gates, first, span, ape, norm, turns, EPSILON, format)
        assert_same_bits(stored, encode_rows(plain, format))


def test_compress_without_a_finished_group_is_empty():
    draw, format = Draw.seeded(0), RowFormat(RowKind.PACKED_KV_F16, 64, 16)
    x, ape, norm = draw.floats(3, 128), draw.floats(4, 128), draw.floats(64)
    out = CPU["scalar"].compress(x, x, 0, Groups(0, 0, 4), ape, norm, draw.turns(0, 16), EPSILON, format)
    assert out.shape == (0, format.row_bytes)


@pytest.mark.parametrize(("first", "groups"), [(5, Groups(1, 2, 4)), (0, Groups(0, 3, 4)), (4, Groups(1, 2, 4))])
def test_compress_refuses_windows_it_was_not_given(first, groups):
    draw, format = Draw.seeded(0), RowFormat(RowKind.F32, 64, 16)
    x, ape, norm = draw.floats(8, 128), draw.floats(4, 128), draw.floats(64)
    turns = draw.turns(groups.end - groups.first, 16)
    with pytest.raises(ValueError, match="values must cover positions"):
        CPU["scalar"].compress(x, x, first, groups, ape, norm, turns, EPSILON, format)
