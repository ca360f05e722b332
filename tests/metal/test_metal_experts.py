"""Experts on Metal, run on the CPU, against the reference in float64."""

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.quantised import random_tensor
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import ExpertWeights
from whitedwarf.ops.metal import experts
from whitedwarf.ops.mlx_twins.blocks import MlxWeight, weight_of
from whitedwarf.ops.reference import _swiglu as swiglu

pytestmark = [pytest.mark.mlx, needs_compiler]
FLASH = GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, GgmlType.Q2_K


def weights(draw: Draw, num_experts: int, width: int, hidden: int) -> tuple[list[MlxWeight], list]:
    sizes = ((hidden, width), (hidden, width), (width, hidden))
    stored = [random_tensor(type, (num_experts, *size), draw.rng) for type, size in zip(FLASH, sizes, strict=True)]
    return [weight_of(tensor) for tensor in stored], [REFERENCE.weight(tensor) for tensor in stored]


def choice(draw: Draw, n: int, num_experts: int, used: int) -> np.ndarray:
    """Experts with many rows, with few and with none; none twice for a row."""
    skewed = draw.rng.random((n, num_experts)) ** 3 * np.arange(1, num_experts + 1)
    return np.argsort(-skewed, axis=1)[:, :used].astype(np.int32)


@pytest.mark.parametrize(("n", "size", "limit"), [(3, "few", 1.0), (2, "few", np.inf), (53, "many", 1.0)])
def test_routed_experts(kernels, n, size, limit):  # noqa: F811
    draw = Draw.seeded(n)
    ours, truth = weights(draw, 9, 256, 256)
    x, shares, picked = draw.floats(n, 256) / 4, np.abs(draw.floats(n, 2)), choice(draw, n, 9, 2)
    out = experts.routed(on_mlx(x), on_mlx(picked), on_mlx(shares), *ours, limit)
    expected = REFERENCE.experts(exact(x), picked, exact(shares), ExpertWeights(*truth, limit))
    assert_close(np.array(out), expected)
    assert kernels.launched == [f"experts_{size}_up_iq2_xxs_iq2_xxs", f"experts_{size}_down_q2_k"]


@pytest.mark.parametrize("n", [1, 20])
def test_the_shared_expert(kernels, n):  # noqa: F811
    draw = Draw.seeded(n)
    sizes = ((96, 256), (96, 256), (256, 96))
    stored = [random_tensor(GgmlType.Q8_0, size, draw.rng) for size in sizes]
    x = draw.floats(n, 256) / 4
    ours = experts.shared(on_mlx(x), *map(weight_of, stored), 1.0)
    gate, up, down = (REFERENCE.weight(tensor) for tensor in stored)
    hidden = swiglu(REFERENCE.linear(exact(x), gate), REFERENCE.linear(exact(x), up), 1.0)
    assert_close(np.array(ours), REFERENCE.linear(hidden, down))


def test_a_row_s_experts_have_the_same_bits_in_any_company_of_many(kernels):  # noqa: F811
    draw = Draw.seeded(4)
    ours, _ = weights(draw, 5, 256, 256)
    x, shares, picked = draw.floats(40, 256), np.abs(draw.floats(40, 2)), choice(draw, 40, 5, 2)
    whole = np.array(experts.routed(on_mlx(x), on_mlx(picked), on_mlx(shares), *ours, 10.0))
    part = experts.routed(on_mlx(x[11:30]), on_mlx(picked[11:30]), on_mlx(shares[11:30]), *ours, 10.0)
    assert_same_bits(np.array(part), whole[11:30])
