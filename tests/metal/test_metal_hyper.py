"""Hyper-connections on Metal, run on the CPU, against the reference in float64."""

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import REFERENCE, Draw, assert_close, exact, tensor
from ops.test_mlx_rows import SETTINGS
from whitedwarf.ops.base import HyperHeadWeights, HyperMix, HyperWeights
from whitedwarf.ops.metal import hyper
from whitedwarf.ops.mlx_twins.blocks import weight_of

pytestmark = [pytest.mark.mlx, needs_compiler]


@pytest.mark.parametrize(("n", "dims"), [(1, 64), (3, 288)])
def test_hyper_in(kernels, n, dims):  # noqa: F811
    draw = Draw.seeded(n)
    stored = tensor(draw.floats(24, 4 * dims) / np.float32(dims**0.5))
    base, scale, norm, streams = draw.floats(24), draw.floats(3), draw.floats(dims), draw.floats(n, 4, dims) * 20
    inputs = weight_of(stored), *map(on_mlx, (base, scale, norm))
    out, post, combination = map(np.array, hyper.hyper_in(on_mlx(streams), *inputs, SETTINGS))
    weights = HyperWeights(REFERENCE.weight(stored), exact(base), exact(scale), exact(norm))
    expected, mix = REFERENCE.hyper_in(exact(streams), weights, SETTINGS)
    assert_close(out, expected)
    assert_close(post, mix.post)
    assert_close(combination, mix.combination)
    assert kernels.launched == ["products_few_f32", "hyper_in"]


@pytest.mark.parametrize(("n", "dims"), [(1, 64), (3, 288)])
def test_hyper_out(kernels, n, dims):  # noqa: F811
    draw = Draw.seeded(n)
    arrays = draw.floats(n, 4, dims), draw.floats(n, dims), draw.floats(n, 4), draw.floats(n, 4, 4)
    streams, added, post, combination = map(exact, arrays)
    out = hyper.hyper_out(*map(on_mlx, arrays))
    assert_close(np.array(out), REFERENCE.hyper_out(streams, added, HyperMix(post, combination)), 1e-6)


@pytest.mark.parametrize(("n", "dims"), [(1, 64), (3, 288)])
def test_hyper_head(kernels, n, dims):  # noqa: F811
    draw = Draw.seeded(n)
    stored = tensor(draw.floats(4, 4 * dims) / np.float32(dims**0.5))
    base, scale, norm, streams = draw.floats(4), draw.floats(1), draw.floats(dims), draw.floats(n, 4, dims)
    out = hyper.hyper_head(on_mlx(streams), weight_of(stored), *map(on_mlx, (base, scale, norm)), SETTINGS)
    weights = HyperHeadWeights(REFERENCE.weight(stored), exact(base), exact(scale), exact(norm))
    assert_close(np.array(out), REFERENCE.hyper_head(exact(streams), weights, SETTINGS))
