"""Decoders against the public gguf package, over random and deliberately odd blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gguf import GGMLQuantizationType, quants
from whitedwarf.gguf.codecs import PIECE_ELEMENTS, decode, encode
from whitedwarf.gguf.types import GgmlType

Bytes = NDArray[np.uint8]

BLOCK_TYPES = [
    GgmlType.Q8_0,
    GgmlType.Q2_K,
    GgmlType.Q3_K,
    GgmlType.Q4_K,
    GgmlType.Q5_K,
    GgmlType.Q6_K,
    GgmlType.IQ2_XXS,
    GgmlType.MXFP4,
]
FLOAT_TYPES = [GgmlType.F32, GgmlType.F16, GgmlType.BF16]
HALF_OFFSETS = {  # where the float16 scales of a block lie
    GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82),
    GgmlType.Q3_K: (108,),
    GgmlType.Q4_K: (0, 2),
    GgmlType.Q5_K: (0, 2),
    GgmlType.Q6_K: (208,),
    GgmlType.IQ2_XXS: (0,),
    GgmlType.MXFP4: (),
}
ODD_HALVES = np.array([0, 0x8000, 1, 0x03FF, 0x8001, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00], np.uint16)


def theirs(data: Bytes, type: GgmlType) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return quants.dequantize(data.copy(), GGMLQuantizationType(type.value)).reshape(-1)


def assert_bit_equal(ours: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Not-a-numbers only have to be at the same places: which payload they carry is the processor's choice."""
    assert ours.dtype == expected.dtype == np.float32
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(ours), is_nan)
    np.testing.assert_array_equal(ours.view(np.uint32)[~is_nan], expected.view(np.uint32)[~is_nan])


def random_blocks(type: GgmlType, count: int, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, (count, type.block_bytes), np.uint8)


@pytest.mark.parametrize("type", BLOCK_TYPES + FLOAT_TYPES, ids=lambda type: type.name)
def test_random_bytes_decode_like_the_public_package(type: GgmlType) -> None:
    blocks = random_blocks(type, 999, seed=type.value)
    assert_bit_equal(decode(blocks.reshape(-1), type, (999 * type.block_size,)), theirs(blocks, type))


@pytest.mark.parametrize("type", [type for type in BLOCK_TYPES if HALF_OFFSETS[type]], ids=lambda type: type.name)
def test_zero_denormal_and_infinite_scales_decode_like_the_public_package(type: GgmlType) -> None:
    blocks = random_blocks(type, len(ODD_HALVES) ** 2, seed=3)
    first, second = np.meshgrid(ODD_HALVES, ODD_HALVES)
    for offset, halves in zip(HALF_OFFSETS[type], (first, second), strict=False):
        blocks[:, offset : offset + 2] = halves.reshape(-1, 1).view(np.uint8)
    assert_bit_equal(decode(blocks.reshape(-1), type, (blocks.shape[0] * type.block_size,)), theirs(blocks, type))


def test_every_e8m0_scale_of_mxfp4_decodes_like_the_public_package() -> None:
    blocks = random_blocks(GgmlType.MXFP4, 256, seed=5)
    blocks[:, 0] = np.arange(256)
    assert_bit_equal(decode(blocks.reshape(-1), GgmlType.MXFP4, (256 * 32,)), theirs(blocks, GgmlType.MXFP4))


def test_every_grid_point_and_sign_word_of_iq2_xxs_decodes_like_the_public_package() -> None:
    blocks = random_blocks(GgmlType.IQ2_XXS, 512, seed=7)
    blocks[:, 2:6] = np.arange(512, dtype=np.uint16).astype(np.uint8)[:, None]
    blocks[:, :2] = np.array([0x3C00], np.uint16).view(np.uint8)
    assert_bit_equal(decode(blocks.reshape(-1), GgmlType.IQ2_XXS, (512 * 256,)), theirs(blocks, GgmlType.IQ2_XXS))


@settings(max_examples=60, deadline=None)
@given(
    type=st.sampled_from(BLOCK_TYPES + FLOAT_TYPES),
    leading=st.lists(st.integers(1, 4), max_size=2),
    blocks_per_row=st.integers(1, 3),
    data=st.data(),
)
def test_any_shape_of_any_bytes_decodes_like_the_public_package(
    type: GgmlType, leading: list[int], blocks_per_row: int, data: st.DataObject
) -> None:
    shape = (*leading, blocks_per_row * type.block_size)
    size = int(np.prod(leading, dtype=int)) * blocks_per_row * type.block_bytes
    raw = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8)
    ours = decode(raw, type, shape)
    assert ours.shape == shape
    assert_bit_equal(ours.reshape(-1), theirs(raw.reshape(-1, type.block_bytes), type))


@pytest.mark.parametrize("type", [GgmlType.Q4_K, GgmlType.F16], ids=lambda type: type.name)
def test_a_tensor_longer_than_one_piece_decodes_like_its_parts(type: GgmlType) -> None:
    count = PIECE_ELEMENTS // type.block_size + 3
    blocks = random_blocks(type, count, seed=11)
    whole = decode(blocks.reshape(-1), type, (count * type.block_size,))
    assert_bit_equal(whole[-4 * type.block_size :], decode(blocks[-4:].reshape(-1), type, (4 * type.block_size,)))
    assert_bit_equal(whole[: type.block_size], decode(blocks[0], type, (type.block_size,)))


def test_integers_decode_to_integers() -> None:
    values = np.array([[0, -1], [2**31 - 1, -(2**31)]], np.int32)
    decoded = decode(values.view(np.uint8).reshape(-1), GgmlType.I32, (2, 2))
    assert decoded.dtype == np.int32
    np.testing.assert_array_equal(decoded, values)


def test_a_single_number_has_an_empty_shape() -> None:
    assert decode(np.array([1.5], np.float32).view(np.uint8), GgmlType.F32, ()) == np.float32(1.5)


def test_the_result_is_a_fresh_array_that_may_be_written() -> None:
    raw = np.zeros(8, np.uint8)
    raw.flags.writeable = False
    decode(raw, GgmlType.F32, (2,))[0] = 1
    assert not raw.any()


@pytest.mark.parametrize("size_bytes", [0, 33, 35, 68])
def test_bytes_that_do_not_fit_the_shape_are_refused(size_bytes: int) -> None:
    with pytest.raises(ValueError, match="has 34 bytes; got"):
        decode(np.zeros(size_bytes, np.uint8), GgmlType.Q8_0, (32,))


def test_rows_that_are_not_whole_blocks_are_refused_both_ways() -> None:
    with pytest.raises(ValueError, match="blocks of 256"):
        decode(np.zeros(84, np.uint8), GgmlType.Q2_K, (2, 128))
    with pytest.raises(ValueError, match="blocks of 256"):
        encode(np.zeros((2, 128), np.float32), GgmlType.Q2_K)
