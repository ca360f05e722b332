"""The routed and the shared feed-forward network against float64 and against themselves."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from native.weights import LEVELS, QUANTISED, Weights, random_rows, random_weights
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.types import GgmlType

KERNELS = {level: Kernels(1, level) for level in LEVELS}
TWO_THREADS = {level: Kernels(2, level) for level in LEVELS}
LIMIT = 2.0

levels = st.sampled_from(LEVELS)
types = st.sampled_from((*QUANTISED, GgmlType.F16, GgmlType.BF16))
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True, slots=True)
class Network:
    """E experts of width F on D channels."""

    gate: Weights  # (E, F, D)
    up: Weights
    down: Weights  # (E, D, F)

    def run(self, kernels, x, ids, weights, quality, limit=LIMIT, shared=None):
        out = np.full(x.shape, np.nan, np.float32)
        routed = self.gate.matrix, self.up.matrix, self.down.matrix, limit
        kernels.experts(x, ids, weights, routed, shared, out, quality)
        return out

    def first(self, limit=LIMIT):
        """The first expert as a network of its own, for the place of the shared one."""
        parts = self.gate, self.up, self.down
        return *(
            Matrix(part.data[: part.data.size // part.shape[0]], int(part.type), part.shape[1:]) for part in parts
        ), limit

    def exact(self, x, ids, weights, limit=LIMIT, rounded=lambda row, _: row.astype(np.float64)):
        """The network in float64; `rounded` is what a row becomes before it meets weights of a type."""
        gate, up, down = self.gate.exact(), self.up.exact(), self.down.exact()
        limit = limit if limit > 0 else math.inf
        out = np.zeros(x.shape)
        for token, (chosen, shares) in enumerate(zip(ids, weights, strict=True)):
            for e, share in zip(chosen, shares, strict=True):
                g = np.minimum(gate[e] @ rounded(x[token], self.gate.type), limit)
                u = np.clip(up[e] @ rounded(x[token], self.up.type), -limit, limit)
                out[token] += down[e] @ rounded(g / (1 + np.exp(-g)) * u * share, self.down.type)
        return out


def rounded_as_stored(row, weight_type):
    """Eight bits and one scale per 32 values beside quantised weights, floats beside the others."""
    if weight_type not in QUANTISED:
        return row.astype(np.float64)
    codes, scales = np.empty((1, len(row)), np.int8), np.empty((1, len(row) // 32), np.float32)
    KERNELS["scalar"].quantize_activations(row.astype(np.float32)[None], codes, scales)
    return codes[0] * np.repeat(scales[0].astype(np.float64), 32)


def network(rng, gate_type, up_type, down_type, experts=5, width=256, depth=256):
    return Network(
        random_weights(rng, gate_type, (experts, width, depth), 32),
        random_weights(rng, up_type, (experts, width, depth), 32),
        random_weights(rng, down_type, (experts, depth, width), 32),
    )


def routing(rng, tokens, slots, experts=5):
    ids = np.stack([rng.permutation(experts)[:slots] for _ in range(tokens)]).astype(np.int32)
    return ids, rng.uniform(0.1, 1, (tokens, slots)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(levels, types, types, types, seeds, st.integers(1, 20), st.integers(1, 4))
def test_experts_with_float_activations_match_float64(level, gate, up, down, seed, tokens, slots):
    rng = np.random.default_rng(seed)
    net = network(rng, gate, up, down)
    x = random_rows(rng, tokens, 256)
    ids, weights = routing(rng, tokens, slots)
    expected = net.exact(x, ids, weights)
    got = net.run(KERNELS[level], x, ids, weights, quality=True)
    assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected)


@settings(max_examples=40, deadline=None)
@given(levels, types, types, types, seeds, st.integers(1, 20), st.integers(1, 4))
@example("scalar", GgmlType.Q4_K, GgmlType.Q4_K, GgmlType.Q2_K, 2, 1, 1)  # mins that nearly cancel: 4.6 % by rounding
def test_experts_round_their_activations_and_nothing_else(level, gate, up, down, seed, tokens, slots):
    rng = np.random.default_rng(seed)
    net = network(rng, gate, up, down)
    x = random_rows(rng, tokens, 256)
    ids, weights = routing(rng, tokens, slots)
    expected = net.exact(x, ids, weights, rounded=rounded_as_stored)
    got = net.run(KERNELS[level], x, ids, weights, quality=False)
    # A middle value on the edge between two codes may go either way.
    assert np.linalg.norm(got - expected) <= 2e-3 * np.linalg.norm(expected)


@settings(max_examples=40, deadline=None)
@given(levels, st.booleans(), types, seeds, st.integers(2, 70), st.integers(1, 4), st.data())
def test_a_token_does_not_depend_on_its_batch_the_threads_or_the_level(level, quality, down, seed, tokens, slots, data):
    rng = np.random.default_rng(seed)
    net = network(rng, GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, down)
    x = random_rows(rng, tokens, 256)
    ids, weights = routing(rng, tokens, slots)
    together = net.run(KERNELS["scalar"], x, ids, weights, quality)
    cut = data.draw(st.integers(0, tokens), label="cut")
    parts = [
        net.run(TWO_THREADS[level], x[part], ids[part], weights[part], quality)
        for part in (slice(0, cut), slice(cut, tokens))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), together)


@pytest.mark.parametrize("level", LEVELS)
def test_many_tokens_are_summed_panel_by_panel(level):
    """Every panel of down's rows walks all experts: the panels must fit together."""
    rng = np.random.default_rng(9)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0, width=32, depth=1024)
    x = random_rows(rng, 1100, 1024)
    ids, weights = routing(rng, 1100, 4)
    got = net.run(TWO_THREADS[level], x, ids, weights, quality=False)
    np.testing.assert_array_equal(net.run(KERNELS[level], x[-3:], ids[-3:], weights[-3:], False), got[-3:])


@settings(max_examples=40, deadline=None)
@given(levels, st.booleans(), types, types, seeds, st.integers(1, 40), st.integers(1, 4))
def test_the_shared_expert_is_added_last(level, quality, type, down, seed, tokens, slots):
    rng = np.random.default_rng(seed)
    net = network(rng, GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, GgmlType.Q2_K)
    always = network(rng, type, type, down, experts=1, width=288 if down == GgmlType.Q8_0 else 512)
    x = random_rows(rng, tokens, 256)
    ids, weights = routing(rng, tokens, slots)
    alone = always.run(KERNELS["scalar"], x, np.zeros((tokens, 1), np.int32), np.ones((tokens, 1), np.float32), quality)
    expected = net.run(KERNELS["scalar"], x, ids, weights, quality) + alone
    got = net.run(TWO_THREADS[level], x, ids, weights, quality, shared=always.first())
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("limit", [0.0, math.inf, 0.5])
def test_the_shared_expert_clamps_by_its_own_limit(level, limit):
    rng = np.random.default_rng(10)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0, experts=1)
    x = random_rows(rng, 9, 256)
    ids, weights = np.zeros((9, 1), np.int32), np.ones((9, 1), np.float32)
    expected = net.exact(x, ids, weights) + net.exact(x, ids, weights, limit)
    got = net.run(TWO_THREADS[level], x, ids, weights, True, shared=net.first(limit))
    assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("level", LEVELS)
def test_the_order_of_the_slots_does_not_matter(level):
    """A token's sum runs over its experts in ascending order."""
    rng = np.random.default_rng(13)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0)
    x = random_rows(rng, 7, 256)
    ids, weights = routing(rng, 7, 4)
    turned, turned_weights = np.ascontiguousarray(ids[:, ::-1]), np.ascontiguousarray(weights[:, ::-1])
    expected = net.run(KERNELS["scalar"], x, ids, weights, quality=False)
    np.testing.assert_array_equal(net.run(TWO_THREADS[level], x, turned, turned_weights, quality=False), expected)


@pytest.mark.parametrize("level", LEVELS)
def test_a_repeated_expert_counts_twice(level):
    rng = np.random.default_rng(11)
    net = network(rng, GgmlType.Q2_K, GgmlType.Q2_K, GgmlType.Q4_K)
    x = random_rows(rng, 3, 256)
    ids, weights = np.full((3, 2), 4, np.int32), np.full((3, 2), 0.5, np.float32)
    once = net.run(KERNELS[level], x, ids[:, :1].copy(), weights[:, :1].copy(), quality=True)
    np.testing.assert_array_equal(net.run(KERNELS[level], x, ids, weights, quality=True), once + once)


def test_no_tokens_are_no_work():
    rng = np.random.default_rng(12)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0)
    empty = np.empty((0, 256), np.float32)
    ids, weights = np.empty((0, 2), np.int32), np.empty((0, 2), np.float32)
    assert net.run(KERNELS["scalar"], empty, ids, weights, quality=False).shape == (0, 256)
