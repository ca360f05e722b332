"""Hyper-connections in plain torch, against the reference in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from ops.cases import EPSILON, REFERENCE, Draw, assert_close, assert_same_bits, exact, tensor
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import HyperHeadWeights, HyperMix, HyperSettings, HyperWeights
from whitedwarf.ops.twins.hyper import hyper_head, hyper_in, hyper_out, mix_rows, spread

SETTINGS = HyperSettings(rms_epsilon=1e-6, epsilon=1e-6, iterations=20)
seeds = st.integers(0, 2**32 - 1)
rows = st.integers(1, 20)
dims = st.sampled_from([16, 64, 100, 256])


def run_in(streams, mix, base, scale, norm):
    """`hyper_in` of ops/base.py, from its two parts."""
    x, *own = map(on_device, (streams, mix, base, scale, norm))
    mixes = mix_rows(x, own[0], SETTINGS.rms_epsilon)
    outs = hyper_in(x, mixes, *own[1:], SETTINGS.rms_epsilon, SETTINGS.epsilon, SETTINGS.iterations)
    return [from_device(out) for out in outs]


def weights_of(draw, size, width):
    num_mixes = 2 * size + size * size
    mix = draw.floats(num_mixes, size * width) / np.float32(width**0.5)
    return mix, draw.floats(num_mixes), draw.floats(3), draw.floats(width)


@settings(max_examples=30)
@given(seeds, rows, dims, st.sampled_from([2, 4]))
def test_hyper_in(seed, n, width, size):
    draw = Draw.seeded(seed)
    mix, base, scale, norm = weights_of(draw, size, width)
    streams = draw.floats(n, size, width) * 20
    out, post, combination = run_in(streams, mix, base, scale, norm)
    weights = HyperWeights(REFERENCE.weight(tensor(mix)), exact(base), exact(scale), exact(norm))
    expected, expected_mix = REFERENCE.hyper_in(exact(streams), weights, SETTINGS)
    assert_close(out, expected)
    assert_close(post, expected_mix.post)
    assert_close(combination, expected_mix.combination)


@settings(max_examples=20)
@given(seeds, st.integers(2, 20), dims)
def test_a_row_of_hyper_in_does_not_depend_on_the_others(seed, n, width):
    draw = Draw.seeded(seed)
    weights, streams = weights_of(draw, 4, width), draw.floats(n, 4, width)
    together, alone = run_in(streams, *weights), [run_in(streams[i : i + 1], *weights) for i in range(n)]
    for out, outs in zip(together, zip(*alone, strict=True), strict=True):
        assert_same_bits(out, np.concatenate(outs))


@settings(max_examples=20)
@given(seeds, rows, dims)
def test_hyper_out(seed, n, width):
    draw = Draw.seeded(seed)
    streams, output, post, combination = (
        draw.floats(n, 4, width), draw.floats(n, width), draw.floats(n, 4), draw.floats(n, 4, 4)
    )  # fmt: skip
    out = from_device(hyper_out(*map(on_device, (streams, output, post, combination))))
    mix = HyperMix(exact(post), exact(combination))
    assert_close(out, REFERENCE.hyper_out(exact(streams), exact(output), mix), 1e-6)


@settings(max_examples=20)
@given(seeds, rows, dims)
def test_hyper_head(seed, n, width):
    draw = Draw.seeded(seed)
    mix = draw.floats(4, 4 * width) / np.float32(width**0.5)
    base, scale, norm, streams = draw.floats(4), draw.floats(1), draw.floats(width), draw.floats(n, 4, width)
    x, *own = map(on_device, (streams, base, scale, norm))
    out = hyper_head(x, mix_rows(x, on_device(mix), EPSILON), *own, EPSILON, EPSILON)
    weights = HyperHeadWeights(REFERENCE.weight(tensor(mix)), exact(base), exact(scale), exact(norm))
    assert_close(from_device(out), REFERENCE.hyper_head(exact(streams), weights, SETTINGS))


def test_streams_begin_alike():
    x = Draw.seeded(1).floats(3, 5)
    np.testing.assert_array_equal(from_device(spread(on_device(x), 4)), np.repeat(x[:, None], 4, axis=1))
