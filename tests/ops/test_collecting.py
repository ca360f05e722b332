"""Importance collected beside a running model, against plain loops over what the definition says."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.engines import run
from oracle.fixtures import oracle_file
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.ops.collecting import CollectingOps, by_expert, swiglu
from whitedwarf.ops.moments import Moments
from whitedwarf.ops.reference import ReferenceOps
from whitedwarf.ops.select import make_ops
from whitedwarf.weights.store import bundled_model

FILES = ["tinyA/tiny-f32.gguf", "tinyA/tiny-mxfp4.gguf", "tinyQ/tiny-iq2.gguf"]


def ids(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 512, count).astype(np.int32)


def collecting(file, inner: Ops, is_dense=True, kv_cache="packed") -> tuple[Transformer, CollectingOps]:
    collector, ops = CollectingOps.around(inner, is_dense=is_dense, threads=2)
    with open_gguf(file) as gguf:
        return load_model(gguf, ops, kv_cache).transformer, collector


class LoopingOps(ReferenceOps):
    """The definition, token by token and slot by slot, in the reference backend's own experts."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: dict[str, dict[int, np.ndarray]] = defaultdict(dict)
        self.counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.names: dict[int, str] = {}
        self.held: list[object] = []

    def weight(self, tensor):
        weight = super().weight(tensor)
        self.held.append(weight)
        self.names[id(weight)] = tensor.name
        return weight

    def experts(self, x, experts, weights, routed, shared=None):
        for row, picked, shares in zip(x, experts, weights, strict=True):
            for expert, share in zip(picked, shares, strict=True):
                gate = np.minimum(routed.gate.values[expert] @ row, routed.limit)
                up = np.clip(routed.up.values[expert] @ row, -routed.limit, routed.limit)
                self.note(routed.gate, expert, row)
                self.note(routed.down, expert, gate / (1 + np.exp(-gate)) * up * share)
        return super().experts(x, experts, weights, routed, shared)

    def note(self, weight, expert, row):
        name = self.names[id(weight)]
        self.sums[name][expert] = self.sums[name].get(expert, 0) + row**2
        self.counts[name][expert] += 1


@pytest.mark.parametrize("file", FILES)
def test_the_reference_collects_what_the_definition_says(file):
    tokens = ids(24)
    slow = LoopingOps()
    with open_gguf(oracle_file(file)) as gguf:
        model = load_model(gguf, slow).transformer
    model.forward([Span(model.new_state(), tokens, "none")])
    model, collector = collecting(oracle_file(file), ReferenceOps(), is_dense=False)
    model.forward([Span(model.new_state(), tokens, "none")])
    found = collector.moments
    assert set(found.sums) == set(slow.sums)
    for name, sums in found.sums.items():
        for expert in range(len(sums)):
            assert found.counts[name][expert] == slow.counts[name].get(expert, 0)
            np.testing.assert_allclose(sums[expert], slow.sums[name].get(expert, 0), rtol=1e-9)


@pytest.mark.parametrize("quality", [False, True])
def test_the_native_backend_agrees_within_its_rounding_on_nano(quality):
    tokens = ids(60)
    found = []
    for inner in (ReferenceOps(), make_ops("cpu", 2, quality)):
        model, collector = collecting(bundled_model(), inner, kv_cache="f32")
        model.forward([Span(model.new_state(), tokens, "none")])
        found.append(collector.moments)
    slow, fast = found
    assert set(slow.sums) == set(fast.sums)
    same = sum(np.array_equal(slow.counts[name], fast.counts[name]) for name in slow.sums)
    assert same >= (len(slow.sums) if quality else 0.9 * len(slow.sums))  # a router may tip the other way
    for name, sums in slow.sums.items():
        if np.array_equal(slow.counts[name], fast.counts[name]):
            scale = np.sqrt(np.square(sums).mean(axis=1, keepdims=True))
            bound = (1e-4 if quality else 0.1) * scale + (1e-3 if quality else 0.1) * sums
            assert (np.abs(fast.sums[name] - sums) <= bound).all(), name


@pytest.mark.parametrize("file", FILES)
def test_logits_are_the_same_bits_with_a_collector(file):
    tokens = ids(200)
    logits = []
    for is_collecting in (False, True):
        ops = make_ops("cpu", 2)
        if is_collecting:
            model, _ = collecting(oracle_file(file), ops)
        else:
            with open_gguf(oracle_file(file)) as gguf:
                model = load_model(gguf, ops).transformer
        logits.append(run(model, model.new_state(), [tokens[:130], tokens[130:]]))
    assert (logits[0] == logits[1]).all()


@settings(max_examples=6)
@given(sizes=st.lists(st.integers(1, 120), min_size=1, max_size=6), file=st.sampled_from(FILES))
def test_any_chunks_give_the_same_bits(sizes, file):
    tokens = ids(150)
    moments = []
    for cuts in ([150], sizes):
        model, collector = collecting(oracle_file(file), make_ops("cpu", 2))
        state, rest = model.new_state(), tokens
        for size in [*cuts, 150]:
            if len(rest):
                model.forward([Span(state, rest[:size], "none")])
            rest = rest[size:]
        moments.append(collector.moments)
    for name, sums in moments[0].sums.items():
        np.testing.assert_array_equal(moments[1].sums[name], sums, err_msg=name)
        np.testing.assert_array_equal(moments[1].counts[name], moments[0].counts[name])


def test_every_token_is_counted_once_for_each_slot_and_dense_weights_once():
    model, collector = collecting(oracle_file(FILES[0]), make_ops("cpu", 2))
    model.forward([Span(model.new_state(), ids(40), "none")])
    slots = model.config.hp.num_experts_used
    for layer in range(model.config.hp.num_layers):
        counts = collector.moments.counts
        assert counts[f"blk.{layer}.ffn_gate_exps.weight"].sum() == 40 * slots
        assert counts[f"blk.{layer}.ffn_down_exps.weight"].sum() == 40 * slots
        assert counts[f"blk.{layer}.attn_q_a.weight"] == [40]
        assert counts[f"blk.{layer}.attn_output_a.weight"] == [40 * model.config.hp.num_output_groups]


def test_pairs_are_grouped_by_expert_in_the_order_of_tokens():
    grouped = dict(by_expert(np.array([[3, 1], [1, 3], [0, 3]], np.int32)))
    assert {expert: pairs.tolist() for expert, pairs in grouped.items()} == {0: [4], 1: [1, 2], 3: [0, 3, 5]}


def test_a_gate_far_below_zero_gives_nothing_and_no_warning():
    gate = np.float32([[-200, -1e30, 50, np.inf]])
    np.testing.assert_allclose(swiglu(gate, np.float32([[5, 5, 50, -50]]), 10), [[0, 0, 100, -100]], rtol=1e-3)


def test_moments_add_up_and_forget():
    one, two = Moments(), Moments()
    for moments, rows in ((one, [[1.0, 2.0]]), (two, [[3.0, 4.0], [0.0, 1.0]])):
        moments.declare("a", 2, 2)
        moments.add("a", 1, np.array(rows))
    one.take(two)
    assert one.sums["a"].tolist() == [[0, 0], [10, 21]]
    assert one.counts["a"].tolist() == [0, 3]
    assert not two.sums["a"].any()
    assert not two.counts["a"].any()
    assert list(one.broken()) == []
    one.add("a", 0, np.array([[np.nan, 1]]))
    assert list(one.broken()) == ["a"]
