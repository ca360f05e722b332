"""Weights from a seed: valid blocks with the wanted deviation, and whole models that compute with them."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")

import torch

from whitedwarf.bench.traffic import traffic_per_token
from whitedwarf.gguf.codecs import decode as decode_bytes
from whitedwarf.gguf.synth import QUANTS
from whitedwarf.gguf.synth_blocks import SYNTHETIC_TYPES
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.base import Span
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.seeded import SeededOps, seeded_tensors, seeded_weight
from whitedwarf.ops.torch_ops import TorchOps
from whitedwarf.ops.twins.planes import decode, raw_bytes

CPU = torch.device("cpu")


@pytest.mark.parametrize("type", SYNTHETIC_TYPES, ids=lambda type: type.name)
def test_values_have_the_deviation_of_their_name_and_blocks_are_what_a_file_could_hold(type: GgmlType) -> None:
    for columns in (256, 2048):
        weight = seeded_weight("blk.0.ffn_up_exps.weight", type, (3, 200, columns), CPU)
        values = decode(weight)
        assert abs(values.std().item() * columns**0.5 - 1) < 0.03
        assert abs(values.mean().item() * columns**0.5) < 0.03
        expected = decode_bytes(raw_bytes(weight).numpy(), type, weight.shape)
        np.testing.assert_array_equal(values.numpy(), expected)


def test_the_same_seed_gives_the_same_weights_and_names_differ() -> None:
    one, same, named, other = (
        raw_bytes(seeded_weight(f"{name}.weight", GgmlType.Q2_K, (4, 256), CPU, seed))
        for name, seed in (("output", 5), ("output", 5), ("attn_kv", 5), ("output", 6))
    )
    assert (one == same).all()
    assert (one != named).any()
    assert (one != other).any()


@pytest.mark.parametrize("quant", list(QUANTS))
def test_a_tiny_model_has_activations_of_the_order_of_one(quant: str) -> None:
    hp = model_shape("tiny")
    model = Transformer.load(seeded_tensors(hp, quant), ModelConfig(hp), SeededOps.around(TorchOps()))
    ids = np.random.default_rng(0).integers(0, hp.vocab_size, 40).astype(np.int32)
    seen: list[float] = []

    def watch(name: str, layer: int, rows: np.ndarray) -> None:
        seen.append(float(np.abs(rows).max()))

    [logits] = model.forward([Span(model.new_state(), ids, "all")], watch)
    assert np.isfinite(logits).all()
    assert 0.3 < logits.std() < 10
    assert max(seen) < 1000


def test_the_plan_of_flash_costs_no_memory_and_counts_its_bytes() -> None:
    hp = model_shape("flash")
    tensors = seeded_tensors(hp)
    size = sum(tensor.data.nbytes for tensor in tensors.values())
    assert 80e9 < size < 92e9
    assert sum(tensor.data.base.nbytes for tensor in tensors.values() if tensor.data.strides == (0,)) < 10_000
    assert 5e9 < traffic_per_token(tensors, hp).total_bytes < 12e9
