"""A tensor on a torch device: split into planes, decoded, and put together again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from ops.quantised import TYPES, random_tensor  # noqa: E402
from whitedwarf.gguf.codecs import decode as decode_bytes  # noqa: E402
from whitedwarf.gguf.types import GgmlType  # noqa: E402
from whitedwarf.ops.twins import planes  # noqa: E402
from whitedwarf.weights.tensors import Tensor  # noqa: E402

seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 3), min_size=1, max_size=2)


def any_bytes(type: GgmlType, shape: tuple[int, ...], seed: int) -> Tensor:
    size = int(np.prod(shape)) // type.block_size * type.block_bytes
    return Tensor("test", type, shape, np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8))


def assert_same_numbers(actual: np.ndarray, expected: np.ndarray) -> None:
    is_number = ~np.isnan(expected)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(actual), ~is_number)
    np.testing.assert_array_equal(actual[is_number].view(np.uint32), expected[is_number].view(np.uint32))


@settings(max_examples=60)
@given(st.sampled_from(TYPES), shapes, st.integers(1, 3), seeds)
def test_any_bytes_decode_like_the_codecs_and_come_back(type, lead, blocks, seed):
    tensor = any_bytes(type, (*lead, blocks * type.block_size), seed)
    weight = planes.take_in(tensor, "cpu")
    assert weight.shape == tensor.shape
    assert weight.size_bytes == tensor.data.size
    assert_same_numbers(planes.decode(weight).numpy(), tensor.floats())
    np.testing.assert_array_equal(planes.raw_bytes(weight).numpy(), tensor.data)


def test_every_scale_of_mxfp4_decodes_like_the_codecs():
    data = np.zeros((256, 17), np.uint8)
    data[:, 0], data[:, 1:] = np.arange(256), np.arange(16) * 16 + np.arange(16)[::-1]
    tensor = Tensor("test", GgmlType.MXFP4, (256, 32), data.reshape(-1))
    assert_same_numbers(planes.decode(planes.take_in(tensor, "cpu")).numpy(), tensor.floats())


@pytest.mark.parametrize("type", TYPES)
def test_rows_decode_like_the_whole(type):
    tensor = random_tensor(type, (7, 512), np.random.default_rng(0))
    ids = torch.tensor([6, 0, 3, 3], dtype=torch.int32)
    decoded = planes.decode_rows(planes.take_in(tensor, "cpu"), ids)
    np.testing.assert_array_equal(decoded.numpy(), tensor.floats()[ids.numpy()])


@pytest.mark.parametrize("type", TYPES)
def test_a_tensor_of_many_pieces_is_taken_in_whole(type, monkeypatch):
    monkeypatch.setattr(planes, "PIECE_BYTES", 3 * type.block_bytes)
    tensor = random_tensor(type, (5, 2 * 256), np.random.default_rng(0))
    tensor.data.flags.writeable = False
    np.testing.assert_array_equal(planes.raw_bytes(planes.take_in(tensor, "cpu")).numpy(), tensor.data)


@pytest.mark.parametrize("type", TYPES)
def test_single_experts_can_be_put_into_slots(type):
    tensor = random_tensor(type, (4, 3, 256), np.random.default_rng(0))
    held = planes.empty_weight(type, (2, 3, 256), "cpu")
    raw = torch.from_numpy(tensor.data).view(4, -1)
    for slot, expert in enumerate((2, 1)):
        planes.split_blocks(raw[expert], type, tuple(plane[slot] for plane in held.planes))
    np.testing.assert_array_equal(planes.decode(held).numpy(), tensor.floats()[[2, 1]])
    np.testing.assert_array_equal(planes.decode(planes.part_of(held, 1)).numpy(), tensor.floats()[1])


@pytest.mark.parametrize("type", sorted(planes.TAKEN_AS_F16))
def test_rare_types_are_taken_in_as_f16(type, monkeypatch):
    monkeypatch.setattr(planes, "PIECE_VALUES", 512)
    blocks = np.random.default_rng(0).integers(0, 64, (5, type.block_bytes), dtype=np.uint8)
    tensor = Tensor("test", type, (5, 256), blocks.reshape(-1))
    weight = planes.take_in(tensor, "cpu")
    assert weight.type is GgmlType.F16
    expected = decode_bytes(tensor.data, type, (5, 256)).astype(np.float16).astype(np.float32)
    assert_same_numbers(planes.decode(weight).numpy(), expected)


def test_integers_are_no_weights():
    with pytest.raises(ValueError, match=r"no product with I32 weights.*F32, F16, BF16, Q8_0"):
        planes.take_in(Tensor("ids", GgmlType.I32, (2, 3), np.zeros(24, np.uint8)), "cpu")
