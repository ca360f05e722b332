"""Attention, the indexer's choice and the router in plain torch, against the reference in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from ops.cases import KEY_KINDS, KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact, tensor
from ops.test_cpu_attention import picked_rows
from ops.test_cpu_index import repeated_keys, simple_floats
from ops.torch_cases import from_device, on_device, rows_on_device
from whitedwarf.ops.base import RouterWeights, RowFormat, Rows, Visible
from whitedwarf.ops.rows import round_like_keys
from whitedwarf.ops.twins.attention import attention
from whitedwarf.ops.twins.index import index_pick
from whitedwarf.ops.twins.route import route

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=40)
@given(
    seeds,
    st.integers(1, 12),
    st.integers(1, 20),
    st.sampled_from([64, 128]),
    st.sampled_from([16, 32, 128]),
    st.sampled_from(KV_KINDS),
    st.sampled_from(["none", "counts", "picked"]),
)
def test_attention(seed, n, heads, dims, length, kind, seen):
    draw, format = Draw.seeded(seed), RowFormat(kind, dims, 16)
    start = int(draw.rng.integers(0, 300))
    first = int(draw.rng.integers(0, max(1, start - length + 2)))
    window = draw.rows(start + n - first, format, first)
    positions = np.arange(start, start + n, dtype=np.int32)
    compressed, counts = None, None
    if seen != "none":
        counts = np.sort(draw.rng.integers(0, 150, n)).astype(np.int32)
        compressed = draw.rows(150, format)
    visible = Visible(positions, length, counts, picked_rows(draw, counts, 40) if seen == "picked" else None)
    queries, sinks, turns = draw.floats(n, heads, dims), draw.floats(heads), draw.turns(n, 16)

    def run(rows: slice) -> np.ndarray:
        own = visible.of(rows)
        return from_device(
            attention(
                on_device(queries[rows]),
                rows_on_device(window),
                rows_on_device(compressed),
                on_device(own.positions),
                length,
                on_device(own.counts),
                on_device(own.picked),
                on_device(sinks),
                on_device(turns[rows]),
            )
        )

    out = run(slice(0, n))
    assert_close(out, REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns)))
    assert_same_bits(run(slice(n - 1, n)), out[n - 1 :])


@settings(max_examples=40)
@given(
    seeds, st.integers(1, 9), st.integers(1, 9), st.sampled_from([32, 128]), st.sampled_from(KEY_KINDS),
    st.integers(1, 200), st.integers(1, 70),
)  # fmt: skip
def test_the_best_keys_are_picked_and_ties_go_to_the_lowest_row(seed, n, heads, dims, kind, num_keys, top):
    draw, format = Draw.seeded(seed), RowFormat(kind, dims, 16)
    keys: Rows = repeated_keys(draw, num_keys, format)
    counts = draw.rng.integers(0, num_keys + 1, n).astype(np.int32)
    queries, weights = simple_floats(draw, n, heads, dims), simple_floats(draw, n, heads)
    queries = round_like_keys(queries, format)
    own = on_device(queries), on_device(weights), rows_on_device(keys), on_device(counts)
    expected = REFERENCE.index_pick(exact(queries), exact(weights), keys, counts, top)
    np.testing.assert_array_equal(from_device(index_pick(*own, top)), expected)


@settings(max_examples=40)
@given(seeds, st.integers(1, 9), st.sampled_from(["bias", "table", "plain"]), st.booleans())
def test_route(seed, n, kind, normalise):
    draw, num_experts, num_used = Draw.seeded(seed), 32, 6
    gate, x = draw.floats(num_experts, 16), draw.floats(n, 16) * 20
    if seed % 2:
        gate[1::2] = gate[::2]  # ties
    bias = draw.floats(num_experts) if kind == "bias" and not seed % 2 else None
    table = draw.rng.integers(0, num_experts, (50, num_used)).astype(np.int32) if kind == "table" else None
    ids = draw.rng.integers(0, 50, n).astype(np.int32)
    logits = (x @ gate.T).astype(np.float32)
    if seed % 2:
        logits[:, 1::2] = logits[:, ::2]
    weights = RouterWeights(
        REFERENCE.weight(tensor(np.eye(num_experts, dtype=np.float32))),
        exact_or_none(bias),
        table,
        num_used,
        1.5,
        normalise,
    )
    experts, shares = REFERENCE.route(exact(logits), weights, ids)
    own = on_device(logits), on_device(bias), on_device(table), on_device(ids)
    out, out_shares = (from_device(x) for x in route(*own, num_used, 1.5, normalise))
    np.testing.assert_array_equal(out, experts)
    assert_close(out_shares, shares, 1e-6)


def exact_or_none(x: np.ndarray | None) -> np.ndarray | None:
    return None if x is None else exact(x)


@pytest.mark.parametrize("logit", [-80.0, -30.0, 0.0, 30.0, 200.0])
def test_logits_of_any_size_are_routed(logit):
    logits = np.array([[logit, logit - 1]], np.float32)
    own = on_device(logits), None, None, on_device(np.zeros(1, np.int32))
    expected = np.sqrt(np.logaddexp(0, exact(logits)))
    assert_close(from_device(route(*own, 2, 1.0, False)[1]), expected, 1e-6)
