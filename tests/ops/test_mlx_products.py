"""Products, routing and experts of the MLX twins, against the reference in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import EPSILON, REFERENCE, Draw, assert_close, assert_same_bits, exact, tensor
from ops.mlx_cases import MLX, both_of
from ops.quantised import TYPES, random_tensor
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import ExpertWeights, RouterWeights

pytestmark = pytest.mark.mlx

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 20)
types = st.sampled_from(TYPES)


@settings(max_examples=30)
@given(types, seeds, counts, st.integers(1, 2), st.integers(1, 70), st.sampled_from([1, 2, 4]))
def test_products(type, seed, n, blocks, rows, groups):
    draw, width = Draw.seeded(seed), 256 * blocks
    ours, truth = both_of(random_tensor(type, (groups * rows, width), draw.rng))
    x = draw.floats(n, groups * width)
    expected = REFERENCE.grouped_linear(exact(x), truth, groups)
    magnitudes = REFERENCE.weight(tensor(np.abs(truth.values).astype(np.float32)))
    size = REFERENCE.grouped_linear(np.abs(exact(x)), magnitudes, groups)
    assert_close(MLX.grouped_linear(x, ours, groups), expected, 1e-6, size)
    part = np.ascontiguousarray(x[:, :width])
    size = REFERENCE.linear(np.abs(exact(part)), magnitudes)
    assert_close(MLX.linear(part, ours), REFERENCE.linear(exact(part), truth), 1e-6, size)


def test_several_products_of_a_normed_input():
    draw = Draw.seeded(1)
    pairs = [both_of(random_tensor(GgmlType.Q8_0, (rows, 64), draw.rng)) for rows in (7, 30)]
    x, norm = draw.floats(3, 64), draw.floats(64)
    ours = MLX.linears(x, [mine for mine, _ in pairs], norm, EPSILON)
    expected = REFERENCE.linears(exact(x), [truth for _, truth in pairs], exact(norm), EPSILON)
    for got, wanted in zip(ours, expected, strict=True):
        assert_close(got, wanted)


def test_a_row_s_product_has_the_same_bits_in_any_company():
    draw = Draw.seeded(2)
    weight, _ = both_of(random_tensor(GgmlType.Q8_0, (50, 96), draw.rng))
    x = draw.floats(40, 96)
    whole = MLX.linear(x, weight)
    for first, end in ((0, 1), (3, 10), (17, 40)):
        assert_same_bits(MLX.linear(x[first:end], weight), whole[first:end])


@settings(max_examples=30)
@given(seeds, counts, st.integers(6, 80), st.sampled_from(["bias", "table", "plain"]), st.booleans())
def test_route(seed, n, num_experts, kind, normalise):
    draw = Draw.seeded(seed)
    gate, reference_gate = both_of(tensor(draw.floats(num_experts, 32)))
    bias = draw.floats(num_experts) if kind == "bias" else None
    table = draw.rng.integers(0, num_experts, (50, 6)).astype(np.int32) if kind == "table" else None
    x, ids = draw.floats(n, 32) * 3, draw.rng.integers(0, 50, n).astype(np.int32)
    experts, weights = MLX.route(x, RouterWeights(gate, bias, table, 6, 1.5, normalise), ids)
    reference_bias = None if bias is None else exact(bias)
    router = RouterWeights(reference_gate, reference_bias, table, 6, 1.5, normalise)
    expected_experts, expected_weights = REFERENCE.route(exact(x), router, ids)
    np.testing.assert_array_equal(experts, expected_experts)
    assert_close(weights, expected_weights)


def test_equal_scores_route_to_the_lowest_experts():
    gate, _ = both_of(tensor(np.zeros((9, 32), np.float32)))
    bias = np.array([0, 0, 1, 0, 1, 0, 0, 0, 0], np.float32)
    router = RouterWeights(gate, bias, None, 4, 1.0, True)
    experts, weights = MLX.route(np.ones((1, 32), np.float32), router, np.zeros(1, np.int32))
    np.testing.assert_array_equal(experts, [[2, 4, 0, 1]])
    np.testing.assert_array_equal(weights, [[0.25] * 4])


@pytest.mark.parametrize("logit", [-150.0, -25.0, 0.0, 25.0, 2000.0])
def test_scores_of_any_logit_are_finite(logit):
    gate, reference_gate = both_of(tensor(np.full((3, 1), logit, np.float32)))
    x, ids = np.ones((1, 1), np.float32), np.zeros(1, np.int32)
    _, weights = MLX.route(x, RouterWeights(gate, None, None, 2, 1.0, False), ids)
    _, expected = REFERENCE.route(exact(x), RouterWeights(reference_gate, None, None, 2, 1.0, False), ids)
    assert_close(weights, expected)


def swiglu_pair(draw: Draw, types: tuple, shape: tuple[int, ...], limit: float) -> tuple[ExpertWeights, ExpertWeights]:
    *stack, hidden, width = shape
    sizes = ((hidden, width), (hidden, width), (width, hidden))
    pairs = [both_of(random_tensor(type, (*stack, *size), draw.rng)) for type, size in zip(types, sizes, strict=True)]
    mine, reference = zip(*pairs, strict=True)
    return ExpertWeights(*mine, limit), ExpertWeights(*reference, limit)


QUANTS = ((GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, GgmlType.Q2_K), (GgmlType.MXFP4,) * 3, (GgmlType.Q4_K,) * 3)


@settings(max_examples=15)
@given(seeds, counts, st.sampled_from([1.0, 10.0, float("inf")]), st.sampled_from(QUANTS))
def test_experts(seed, n, limit, quants):
    draw = Draw.seeded(seed)
    x, weights = draw.floats(n, 256) / 4, np.abs(draw.floats(n, 3))
    experts = draw.rng.integers(0, 5, (n, 3)).astype(np.int32)
    routed, reference_routed = swiglu_pair(draw, quants, (5, 256, 256), limit)
    shared, reference_shared = swiglu_pair(draw, (GgmlType.Q8_0,) * 3, (64, 256), limit)
    expected = REFERENCE.experts(exact(x), experts, exact(weights), reference_routed, reference_shared)
    assert_close(MLX.experts(x, experts, weights, routed, shared), expected)


def test_a_row_s_experts_have_the_same_bits_in_any_company():
    draw = Draw.seeded(4)
    routed, _ = swiglu_pair(draw, QUANTS[0], (4, 256, 256), 10.0)
    x, weights = draw.floats(12, 256), draw.floats(12, 2)
    experts = draw.rng.integers(0, 4, (12, 2)).astype(np.int32)
    whole = MLX.experts(x, experts, weights, routed)
    for rows in (slice(0, 1), slice(5, 9)):
        assert_same_bits(MLX.experts(x[rows], experts[rows], weights[rows], routed), whole[rows])


def test_steering_takes_the_part_along_the_direction_away():
    draw = Draw.seeded(6)
    y, direction = draw.floats(5, 40), draw.floats(40)
    expected = exact(y) - 0.7 * (exact(y) @ exact(direction))[:, None] * exact(direction)
    assert_close(MLX.steer(y, direction, 0.7), expected)
