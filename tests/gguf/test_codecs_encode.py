"""Encoders: bit-equal to the public package where it has one, bounded round trips where it has none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from gguf import GGMLQuantizationType, quants
from whitedwarf.gguf.codecs import ENCODABLE_TYPES, PIECE_ELEMENTS, decode, encode
from whitedwarf.gguf.types import GgmlType

Floats = NDArray[np.float32]

# Root mean square error of a round trip over that of the values, normally distributed; measured, with a tenth to spare.
LARGEST_ERROR = {
    GgmlType.F32: 0.0,
    GgmlType.F16: 0.0003,
    GgmlType.BF16: 0.0018,
    GgmlType.Q8_0: 0.006,
    GgmlType.MXFP4: 0.13,
    GgmlType.Q4_K: 0.078,
    GgmlType.Q2_K: 0.33,
    GgmlType.IQ2_XXS: 0.38,
}
LEAST_SQUARES = [GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS]


def normal_values(*shape: int, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.05).astype(np.float32)


def round_trip(values: Floats, type: GgmlType, weights: Floats | None = None) -> Floats:
    return decode(encode(values, type, weights), type, values.shape)


def relative_error(values: Floats, type: GgmlType, weights: Floats | None = None) -> float:
    scale = np.ones_like(values) if weights is None else np.broadcast_to(weights, values.shape)
    difference = np.square(round_trip(values, type, weights) - values)
    return float(np.sqrt((scale * difference).sum() / (scale * np.square(values)).sum()))


@pytest.mark.parametrize("type", sorted(ENCODABLE_TYPES), ids=lambda type: type.name)
def test_a_round_trip_loses_no_more_than_the_format_must(type: GgmlType) -> None:
    assert relative_error(normal_values(64, 512), type) <= LARGEST_ERROR[type]


@pytest.mark.parametrize("type", [GgmlType.Q8_0, GgmlType.MXFP4, GgmlType.BF16], ids=lambda type: type.name)
def test_encoders_are_bit_equal_to_the_public_package(type: GgmlType) -> None:
    values = normal_values(300, 256)
    values *= np.exp2(np.random.default_rng(1).integers(-60, 60, (300, 1))).astype(
        np.float32
    )  # rows of very different size
    if type is GgmlType.Q8_0:
        values = np.clip(values, -8e6, 8e6)
    values[7] = 0
    values[8, :7] = [-6, 6, 5, 3.5, -2.5, 0.25, -0.25]  # ties between MXFP4 codes
    values[9, :4] = [127, 0.5, -1.5, 2.5]  # ties between Q8_0 quants
    theirs = quants.quantize(values.copy(), GGMLQuantizationType(type.value))
    np.testing.assert_array_equal(encode(values, type), theirs.reshape(-1))


@settings(max_examples=100, deadline=None)
@given(arrays.arrays(np.float32, (2, 32), elements=st.floats(-448, 448, width=32)))
def test_any_small_block_of_mxfp4_is_bit_equal_to_the_public_package(values: Floats) -> None:
    largest = np.abs(values).max(axis=1)
    values[(largest > 0) & (largest < 2.0**-120)] = 0  # there the package's scale byte wraps around
    with np.errstate(all="ignore"):
        theirs = quants.quantize(values.copy(), GGMLQuantizationType.MXFP4)
    np.testing.assert_array_equal(encode(values, GgmlType.MXFP4), theirs.reshape(-1))


@pytest.mark.parametrize("type", sorted(ENCODABLE_TYPES), ids=lambda type: type.name)
def test_encoding_what_was_decoded_gives_the_same_numbers_when_the_format_is_a_grid(type: GgmlType) -> None:
    once = round_trip(normal_values(8, 256), type)
    again = round_trip(once, type)
    limit = {GgmlType.Q4_K: 0.02, GgmlType.Q2_K: 0.3, GgmlType.IQ2_XXS: 0.2}.get(type, 0.0)
    assert np.sqrt(np.square(again - once).mean()) <= limit * once.std()


@pytest.mark.parametrize("type", LEAST_SQUARES, ids=lambda type: type.name)
def test_weights_move_the_error_to_the_columns_that_do_not_matter(type: GgmlType) -> None:
    values = normal_values(64, 512)
    weights = np.where(np.arange(512) % 4 == 0, 20, 1).astype(np.float32)
    assert relative_error(values, type, weights) < relative_error(values, type, np.ones(512, np.float32))
    indifferent = np.square(round_trip(values, type, np.ones(512, np.float32)) - values)
    weighted = np.square(round_trip(values, type, weights) - values)
    assert weighted[:, ::4].mean() < indifferent[:, ::4].mean()


@pytest.mark.parametrize("type", LEAST_SQUARES, ids=lambda type: type.name)
def test_weights_of_each_expert_reach_that_expert(type: GgmlType) -> None:
    values = normal_values(3, 4, 256)
    weights = np.random.default_rng(2).random((3, 1, 256)).astype(np.float32)
    together = encode(values, type, weights)
    apart = np.concatenate([encode(values[expert], type, weights[expert]) for expert in range(3)])
    np.testing.assert_array_equal(together, apart)
    spelt = np.ascontiguousarray(np.broadcast_to(weights, values.shape))
    np.testing.assert_array_equal(together, encode(values, type, spelt))


@pytest.mark.parametrize("type", [GgmlType.Q4_K, GgmlType.Q2_K], ids=lambda type: type.name)
def test_a_tensor_longer_than_one_piece_is_encoded_like_its_parts(type: GgmlType) -> None:
    rows = PIECE_ELEMENTS // 256 + 2
    values, weights = normal_values(rows, 256), np.random.default_rng(2).random(256).astype(np.float32)
    whole = encode(values, type, weights)
    np.testing.assert_array_equal(whole[-3 * type.block_bytes :], encode(values[-3:], type, weights))


@pytest.mark.parametrize("type", sorted(ENCODABLE_TYPES), ids=lambda type: type.name)
def test_zeros_stay_zeros(type: GgmlType) -> None:
    assert not round_trip(np.zeros((2, 256), np.float32), type).any()


@pytest.mark.parametrize("type", [GgmlType.Q4_K, GgmlType.Q2_K], ids=lambda type: type.name)
@pytest.mark.parametrize("value", [1e-30, -1e-20, 0.25, -0.25], ids=str)
def test_constant_blocks_survive(type: GgmlType, value: float) -> None:
    values = np.full((1, 256), value, np.float32)
    assert np.abs(round_trip(values, type) - values).max() <= max(0.1 * abs(value), 1e-12)


@settings(max_examples=40, deadline=None)
@given(
    type=st.sampled_from(LEAST_SQUARES),
    values=arrays.arrays(np.float32, (1, 256), elements=st.floats(-1e3, 1e3, width=32)),
)
def test_any_finite_block_encodes_to_finite_numbers_of_about_its_size(type: GgmlType, values: Floats) -> None:
    back = round_trip(values, type)
    assert np.isfinite(back).all()
    assert np.abs(back).max() <= 2 * np.abs(values).max() + 1e-3


@pytest.mark.parametrize("type", [GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.MXFP4], ids=lambda type: type.name)
@pytest.mark.parametrize("bad", [np.inf, np.nan], ids=str)
def test_infinite_values_are_refused_by_block_formats(type: GgmlType, bad: float) -> None:
    values = np.zeros((1, 256), np.float32)
    values[0, 3] = bad
    with pytest.raises(ValueError, match="finite"):
        encode(values, type)


def test_values_beyond_float16_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"got 70000\.0; use BF16 or F32"):
        encode(np.array([1, -70000], np.float32), GgmlType.F16)


def test_bf16_keeps_infinities_and_not_a_numbers() -> None:
    odd = np.array([np.inf, -np.inf, 3.4e38], np.float32)
    np.testing.assert_array_equal(round_trip(odd, GgmlType.BF16), np.array([np.inf, -np.inf, np.inf], np.float32))
    assert np.isnan(round_trip(np.array([0x7F800001], np.uint32).view(np.float32), GgmlType.BF16)).all()


def test_a_type_without_an_encoder_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no encoder for Q3_K; there are encoders for BF16"):
        encode(np.zeros(256, np.float32), GgmlType.Q3_K)


@pytest.mark.parametrize("type", LEAST_SQUARES, ids=lambda type: type.name)
def test_only_the_ratios_of_weights_matter(type: GgmlType) -> None:
    values, weights = normal_values(4, 256), np.random.default_rng(2).random(256).astype(np.float32)
    np.testing.assert_array_equal(encode(values, type, weights), encode(values, type, weights * np.float32(2.0**80)))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf], ids=str)
def test_impossible_weights_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        encode(normal_values(1, 256), GgmlType.Q4_K, np.full(256, bad, np.float32))
