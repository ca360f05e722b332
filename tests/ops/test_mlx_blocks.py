"""Weights in planes decode to the bits of gguf/codecs.py, and take no more room than in the file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cases import assert_same_bits
from ops.mlx_cases import MLX, OPS, both_of
from ops.quantised import TYPES, random_tensor
from whitedwarf.errors import BackendError
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.mlx_twins.blocks import decode
from whitedwarf.weights.tensors import Tensor

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("type", TYPES, ids=lambda type: type.name)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 5), blocks=st.integers(1, 3))
def test_planes_decode_to_the_bits_of_the_codec(type, seed, rows, blocks):
    tensor = random_tensor(type, (rows, 256 * blocks), np.random.default_rng(seed))
    weight = OPS.weight(tensor)
    assert_same_bits(np.array(decode(weight)), tensor.floats())
    assert sum(plane.nbytes for plane in weight.planes) == tensor.data.nbytes


@pytest.mark.parametrize("type", TYPES, ids=lambda type: type.name)
def test_any_scales_of_a_block_decode_to_the_bits_of_the_codec(type):
    data = np.random.default_rng(1).integers(0, 256, 400 * type.block_bytes, dtype=np.uint8)
    tensor = Tensor("test", type, (20, 20 * type.block_size), data)
    ours, truth = np.array(decode(OPS.weight(tensor))), tensor.floats()
    are_numbers = ~np.isnan(truth)
    assert_same_bits(ours[are_numbers], truth[are_numbers])
    assert np.isnan(ours[~are_numbers]).all()


def test_one_expert_and_picked_rows_are_those_of_the_stack():
    tensor = random_tensor(GgmlType.Q2_K, (3, 4, 512), np.random.default_rng(2))
    expert = OPS.weight(tensor).expert(2)
    assert_same_bits(np.array(decode(expert)), tensor.floats()[2])
    assert_same_bits(np.array(decode(expert.picked(OPS.arrays(np.array([3, 0, 3]))[0]))), tensor.floats()[2][[3, 0, 3]])


@pytest.mark.parametrize("type", TYPES, ids=lambda type: type.name)
def test_embedding_rows_are_the_decoded_ones(type):
    ours, truth = both_of(random_tensor(type, (9, 256), np.random.default_rng(3)))
    ids = np.array([8, 0, 0, 5], np.int32)
    assert_same_bits(MLX.embed(ours, ids), truth.values[ids].astype(np.float32))


def test_a_type_without_a_product_is_refused_with_what_to_do():
    with pytest.raises(BackendError, match=r"no product for Q6_K \(test\).*quantise the model"):
        OPS.weight(Tensor("test", GgmlType.Q6_K, (1, 256), np.zeros(210, np.uint8)))
