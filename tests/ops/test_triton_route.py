"""The router in Triton against its twin: the same experts, ties and all, and their weights."""

import numpy as np
import pytest

pytest.importorskip("triton")

from ops.cases import Draw, assert_close, assert_same_bits, exact
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.triton import route as kernel
from whitedwarf.ops.twins.route import route

ROWS = (1, 3, 15, 16, 70)


def both(x, gate, bias, table, ids, num_used, scale, normalise):
    logits = on_device((exact(x) @ exact(gate).T).astype(np.float32))
    rest = on_device(bias), on_device(table), on_device(ids), num_used, scale, normalise
    outs = kernel.route(on_device(x), on_device(gate), *rest), route(logits, *rest)
    return [[from_device(out) for out in pair] for pair in outs]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("kind", ["bias", "table", "plain"])
def test_route(n, kind):
    draw, num_experts, num_used = Draw.seeded(n), 20, 6
    x, gate = draw.floats(n, 300), draw.floats(num_experts, 300) / 8
    bias = draw.floats(num_experts) if kind == "bias" else None
    table = draw.rng.integers(0, num_experts, (50, num_used)).astype(np.int32) if kind == "table" else None
    ids = draw.rng.integers(0, 50, n).astype(np.int32)
    (experts, shares), (expected, expected_shares) = both(x, gate, bias, table, ids, num_used, 1.5, kind != "plain")
    np.testing.assert_array_equal(experts, expected)
    assert_close(shares, expected_shares)


@pytest.mark.parametrize("n", ROWS)
def test_ties_go_to_the_first_expert_and_weights_may_be_f16(n):
    draw = Draw.seeded(n)
    x, gate = draw.rng.integers(-2, 3, (n, 64)).astype(np.float32), draw.rng.integers(-1, 2, (16, 64))
    gate = np.repeat(gate, 2, axis=0).astype(np.float16)
    ids = np.zeros(n, np.int32)
    (experts, shares), (expected, expected_shares) = both(x, gate, None, None, ids, 4, 1.0, True)
    np.testing.assert_array_equal(experts, expected)
    assert_close(shares, expected_shares)


@pytest.mark.parametrize("size", [-80, -20, -3, -0.1, 0.0, 0.1, 3, 20, 80])
def test_logits_of_any_size_are_scored(size):
    x, gate = np.ones((1, 16), np.float32), np.full((2, 16), size / 16, np.float32)
    (_, shares), (_, expected) = both(x, gate, None, None, np.zeros(1, np.int32), 2, 1.0, False)
    assert_close(shares, expected, 1e-6)


def test_a_row_does_not_depend_on_the_others():
    """Not in more rows either, but there the interpreter multiplies as numpy does, which knows a row's place."""
    draw = Draw.seeded(3)
    x, rest = on_device(draw.floats(6, 100)), (on_device(draw.floats(12, 100)), None, None)
    ids = on_device(np.zeros(6, np.int32))
    whole, part = kernel.route(x, *rest, ids, 3, 1.0, True), kernel.route(x[-1:], *rest, ids[-1:], 3, 1.0, True)
    for out, own in zip(whole, part, strict=True):
        assert_same_bits(from_device(out[-1:]), from_device(own))
