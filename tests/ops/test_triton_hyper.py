"""Hyper-connections in Triton against their twins: one row, a few, and enough for tensor cores."""

import pytest

pytest.importorskip("triton")

from ops.cases import EPSILON, Draw, assert_close, assert_same_bits
from ops.test_twins_hyper import SETTINGS, weights_of
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.triton import hyper as kernel
from whitedwarf.ops.twins import hyper as twin

NUMBERS = SETTINGS.rms_epsilon, SETTINGS.epsilon, SETTINGS.iterations
ROWS = (1, 3, 17)


def twin_in(streams, mix, base, scale, norm):
    return twin.hyper_in(streams, twin.mix_rows(streams, mix, SETTINGS.rms_epsilon), base, scale, norm, *NUMBERS)


def inputs(n, width, size=4):
    draw = Draw.seeded(n + width)
    output, post, combination = draw.floats(n, width), draw.floats(n, size), draw.floats(n, size, size)
    weights = tuple(map(on_device, weights_of(draw, size, width)))
    return on_device(draw.floats(n, size, width) * 20), weights, tuple(map(on_device, (output, post, combination)))


def assert_all_close(outs, expected):
    for out, truth in zip(outs, expected, strict=True):
        assert_close(from_device(out), from_device(truth))


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize(("width", "size"), [(256, 4), (100, 4), (300, 2)])
def test_hyper_in(n, width, size):
    streams, weights, _ = inputs(n, width, size)
    assert_all_close(kernel.hyper_in(streams, *weights, *NUMBERS), twin_in(streams, *weights))


@pytest.mark.parametrize("n", ROWS)
def test_hyper_out(n):
    streams, _, put_back = inputs(n, 300)
    expected = from_device(twin.hyper_out(streams, *put_back))
    assert_close(from_device(kernel.hyper_out(streams, *put_back)), expected, 1e-6)


@pytest.mark.parametrize("n", ROWS)
def test_hyper_out_in_is_hyper_out_then_hyper_in(n):
    streams, weights, put_back = inputs(n, 300)
    expected_streams = twin.hyper_out(streams, *put_back)
    outs = kernel.hyper_out_in(streams, *put_back, *weights, *NUMBERS)
    assert_close(from_device(streams), from_device(expected_streams), 1e-6)
    assert_all_close(outs, twin_in(expected_streams, *weights))


@pytest.mark.parametrize("n", ROWS)
def test_hyper_head(n):
    streams, (mix, base, scale, norm), _ = inputs(n, 256)
    weights = mix[:4].contiguous(), base[:4].contiguous(), scale[:1].contiguous(), norm
    out = kernel.hyper_head(streams, *weights, EPSILON, EPSILON)
    mixes = twin.mix_rows(streams, weights[0], EPSILON)
    assert_close(from_device(out), from_device(twin.hyper_head(streams, mixes, *weights[1:], EPSILON, EPSILON)))


@pytest.mark.parametrize(("one", "all_of_them"), [(1, 6), (17, 40)])
def test_a_row_does_not_depend_on_the_others(one, all_of_them):
    streams, weights, _ = inputs(all_of_them, 100)
    whole = kernel.hyper_in(streams, *weights, *NUMBERS)
    part = kernel.hyper_in(streams[-one:].clone(), *weights, *NUMBERS)
    for out, own in zip(whole, part, strict=True):
        assert_same_bits(from_device(out[-one:]), from_device(own))
