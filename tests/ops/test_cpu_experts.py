"""Routing, experts and plain products of the native backend through the Ops protocol, against the reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, LEVELS, REFERENCE, Draw, assert_close, both, exact, tensor
from whitedwarf.ops.base import ExpertWeights, RouterWeights

levels = st.sampled_from(LEVELS)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 20)


@settings(max_examples=40, deadline=None)
@given(levels, seeds, counts, st.integers(6, 80), st.sampled_from(["bias", "table", "plain"]), st.booleans())
def test_route(level, seed, n, num_experts, kind, normalise):
    draw, ops = Draw.seeded(seed), CPU[level]
    gate, reference_gate = both(draw.floats(num_experts, 32), ops)
    bias = draw.floats(num_experts) if kind == "bias" else None
    table = draw.rng.integers(0, num_experts, (50, 6)).astype(np.int32) if kind == "table" else None
    x, ids = draw.floats(n, 32) * 3, draw.rng.integers(0, 50, n).astype(np.int32)
    experts, weights = ops.route(x, RouterWeights(gate, bias, table, 6, 1.5, normalise), ids)
    reference_bias = None if bias is None else exact(bias)
    router = RouterWeights(reference_gate, reference_bias, table, 6, 1.5, normalise)
    expected_experts, expected_weights = REFERENCE.route(exact(x), router, ids)
    np.testing.assert_array_equal(experts, expected_experts)
    assert_close(weights, expected_weights)


def test_equal_scores_route_to_the_lowest_experts():
    ops = CPU["scalar"]
    gate, _ = both(np.zeros((9, 32), np.float32), ops)
    bias = np.array([0, 0, 1, 0, 1, 0, 0, 0, 0], np.float32)
    experts, weights = ops.route(
        np.ones((1, 32), np.float32), RouterWeights(gate, bias, None, 4, 1.0, True), np.zeros(1, np.int32)
    )
    np.testing.assert_array_equal(experts, [[2, 4, 0, 1]])
    np.testing.assert_array_equal(weights, [[0.25] * 4])


@pytest.mark.parametrize("logit", [-150.0, -25.0, 0.0, 25.0, 2000.0])
def test_scores_of_any_logit_are_finite(logit):
    ops = CPU["scalar"]
    gate, reference_gate = both(np.full((3, 1), logit, np.float32), ops)
    x, ids = np.ones((1, 1), np.float32), np.zeros(1, np.int32)
    _, weights = ops.route(x, RouterWeights(gate, None, None, 2, 1.0, False), ids)
    _, expected = REFERENCE.route(exact(x), RouterWeights(reference_gate, None, None, 2, 1.0, False), ids)
    assert_close(weights, expected)


@pytest.mark.parametrize("ids", [[-1], [50]])
def test_token_ids_outside_the_table_are_refused(ids):
    draw, ops = Draw.seeded(0), CPU["scalar"]
    gate, _ = both(draw.floats(8, 32), ops)
    router = RouterWeights(gate, None, np.zeros((50, 2), np.int32), 2, 1.0, True)
    with pytest.raises(ValueError, match="ids must be 0 to 49"):
        ops.route(draw.floats(1, 32), router, np.array(ids, np.int32))


def swiglu_pair(draw: Draw, ops, shape: tuple[int, ...], limit: float) -> tuple[ExpertWeights, ExpertWeights]:
    *stack, hidden, width = shape
    pairs = [both(draw.floats(*stack, *size) / 4, ops) for size in ((hidden, width), (hidden, width), (width, hidden))]
    mine, reference = zip(*pairs, strict=True)
    return ExpertWeights(*mine, limit), ExpertWeights(*reference, limit)


@settings(max_examples=20, deadline=None)
@given(levels, seeds, counts, st.sampled_from([1.0, 10.0, float("inf")]))
def test_experts(level, seed, n, limit):
    draw, ops = Draw.seeded(seed), CPU[level]
    x, weights = draw.floats(n, 48), np.abs(draw.floats(n, 3))
    experts = draw.rng.integers(0, 5, (n, 3)).astype(np.int32)
    routed, reference_routed = swiglu_pair(draw, ops, (5, 40, 48), limit)
    shared, reference_shared = swiglu_pair(draw, ops, (40, 48), limit)
    expected = REFERENCE.experts(exact(x), experts, exact(weights), reference_routed, reference_shared)
    assert_close(ops.experts(x, experts, weights, routed, shared), expected)


@settings(max_examples=20, deadline=None)
@given(levels, seeds, counts, st.integers(1, 90), st.integers(1, 70), st.sampled_from([1, 2, 4]))
def test_products_and_embedding(level, seed, n, width, rows, groups):
    draw, ops = Draw.seeded(seed), CPU[level]
    values = draw.floats(groups * rows, width)
    weight, reference_weight = both(values, ops)
    x = draw.floats(n, groups * width)
    magnitudes = REFERENCE.weight(tensor(np.abs(values)))
    expected = REFERENCE.grouped_linear(exact(x), reference_weight, groups)
    size = REFERENCE.grouped_linear(np.abs(exact(x)), magnitudes, groups)
    assert_close(ops.grouped_linear(x, weight, groups), expected, 1e-6, size)
    part = np.ascontiguousarray(x[:, :width])
    size = REFERENCE.linear(np.abs(exact(part)), magnitudes)
    assert_close(ops.linear(part, weight), REFERENCE.linear(exact(part), reference_weight), 1e-6, size)
    ids = draw.rng.integers(0, groups * rows, n).astype(np.int32)
    np.testing.assert_array_equal(ops.embed(weight, ids), REFERENCE.embed(reference_weight, ids))
