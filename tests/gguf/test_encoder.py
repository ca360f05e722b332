"""The native encoders give the bytes of the reference, at every level; both give those of ggml's own quantiser."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from whitedwarf._native import Kernels
from whitedwarf.gguf.codecs import ENCODABLE_TYPES, decode, encode
from whitedwarf.gguf.encoder import NativeEncoder, ReferenceEncoder, make_encoder
from whitedwarf.gguf.types import GgmlType

Floats = NDArray[np.float32]

GOLDEN = Path(__file__).parent.parent / "golden" / "quantize" / "blocks.npz"
LEVELS = Kernels.available_levels()
NATIVE = {level: NativeEncoder(Kernels(2, level)) for level in LEVELS}
TYPES = sorted(ENCODABLE_TYPES)
SEARCHED = [GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS]


def cases() -> Iterator[tuple[str, GgmlType, str]]:
    with np.load(GOLDEN) as golden:
        names = [key.removesuffix("_values") for key in golden.files if key.endswith("_values")]
        for name in names:
            for type in TYPES:
                for kind in ("none", "weights"):
                    if f"{name}_{type.name}_{kind}" in golden.files:
                        yield name, type, kind


GOLDEN_CASES = list(cases())


def same(ours: NDArray[np.uint8], theirs: NDArray[np.uint8], type: GgmlType) -> None:
    differing = (ours.reshape(-1, type.block_bytes) != theirs.reshape(-1, type.block_bytes)).any(axis=1)
    assert not differing.any(), f"{differing.sum()} of {len(differing)} blocks, first {differing.argmax()}"


def test_the_golden_blocks_are_of_every_searched_type() -> None:
    assert {type for _, type, _ in GOLDEN_CASES} == {*SEARCHED, GgmlType.Q8_0, GgmlType.MXFP4}
    assert len(GOLDEN_CASES) == 9 * 7


@pytest.mark.parametrize("encoder", [ReferenceEncoder(), *NATIVE.values()], ids=["reference", *NATIVE])
@pytest.mark.parametrize(("name", "type", "kind"), GOLDEN_CASES, ids=str)
def test_blocks_are_those_of_ggml(
    name: str, type: GgmlType, kind: str, encoder: ReferenceEncoder | NativeEncoder
) -> None:
    with np.load(GOLDEN) as golden:
        values = golden[f"{name}_values"]
        weights = golden[f"{name}_weights"] if kind == "weights" else None
        same(encoder.encode(values, type, weights), golden[f"{name}_{type.name}_{kind}"], type)


def blocks(seed: int, scale: int, kind: str) -> Floats:
    """37 rows of 256 numbers; 37 is no multiple of what is worked on side by side."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((37, 256))
    if kind == "heavy":
        values = rng.standard_t(1.5, (37, 256)).clip(-1e3, 1e3)
    if kind == "sparse":
        values[rng.random(values.shape) < 0.9] = 0
    if kind == "two":
        values = rng.choice([-1.0, 1.0], (37, 256))
    if kind == "positive":
        values = np.abs(values)
    if kind == "sizes":
        values *= np.exp2(rng.integers(-40, 1, values.shape))
    return np.ldexp(values, scale).astype(np.float32)


kinds = st.sampled_from(["normal", "heavy", "sparse", "two", "positive", "sizes"])
importances = st.sampled_from(["none", "even", "gamma", "some zero"])


def weights_of(kind: str, seed: int) -> Floats | None:
    rng = np.random.default_rng(seed)
    drawn = {
        "none": None,
        "even": np.ones(256),
        "gamma": rng.gamma(0.3, 1e-3, 256),
        "some zero": rng.random(256) * (rng.random(256) < 0.5),
    }[kind]
    return None if drawn is None else drawn.astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    type=st.sampled_from(TYPES), kind=kinds, weighing=importances, seed=st.integers(0, 999), scale=st.integers(-100, 5)
)
def test_every_level_gives_the_bytes_of_the_reference(
    type: GgmlType, kind: str, weighing: str, seed: int, scale: int
) -> None:
    values, weights = blocks(seed, scale, kind), weights_of(weighing, seed)
    reference = encode(values, type, weights)
    for level in LEVELS:
        same(NATIVE[level].encode(values, type, weights), reference, type)


@settings(max_examples=60, deadline=None)
@given(
    type=st.sampled_from([GgmlType.Q8_0, GgmlType.MXFP4, *SEARCHED]),
    values=arrays.arrays(np.float32, (1, 256), elements=st.floats(-6e4, 6e4, width=32)),
)
def test_any_finite_block_encodes_alike(type: GgmlType, values: Floats) -> None:
    reference = encode(values, type)
    for level in LEVELS:
        same(NATIVE[level].encode(values, type), reference, type)


@settings(max_examples=50, deadline=None)
@given(
    type=st.sampled_from([GgmlType.F16, GgmlType.BF16]),
    values=arrays.arrays(np.float32, (64,), elements=st.floats(-65519, 65519, width=32)),
)
def test_floats_are_rounded_alike(type: GgmlType, values: Floats) -> None:
    reference = encode(values, type)
    for level in LEVELS:
        np.testing.assert_array_equal(NATIVE[level].encode(values, type), reference)


@pytest.mark.parametrize("level", LEVELS)
def test_every_float16_and_the_ties_between_them_come_out_right(level: str) -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[:-1] + halves[1:]) / 2
    values = np.concatenate(
        [halves, between, np.nextafter(between, np.float32(0)), np.nextafter(between, np.float32(9e4))]
    )
    values = np.concatenate([values, -values])
    np.testing.assert_array_equal(NATIVE[level].encode(values, GgmlType.F16), encode(values, GgmlType.F16))


@pytest.mark.parametrize("level", LEVELS)
def test_bf16_keeps_infinities_and_not_a_numbers(level: str) -> None:
    values = np.array([np.inf, -np.inf, np.nan, 3.4e38, 0, -0.0], np.float32)
    np.testing.assert_array_equal(NATIVE[level].encode(values, GgmlType.BF16), encode(values, GgmlType.BF16))


@pytest.mark.parametrize("type", [GgmlType.Q8_0, GgmlType.MXFP4, *SEARCHED], ids=lambda type: type.name)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan], ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_infinite_values_are_refused_in_the_words_of_the_reference(level: str, bad: float, type: GgmlType) -> None:
    values = np.ones((40, 256), np.float32)
    values[33, 200] = bad
    with pytest.raises(ValueError, match="finite") as ours:
        NATIVE[level].encode(values, type, np.ones(256, np.float32))
    with pytest.raises(ValueError, match="finite") as theirs:
        encode(values, type, np.ones(256, np.float32))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("type", [GgmlType.F16, GgmlType.Q8_0, *SEARCHED], ids=lambda type: type.name)
@pytest.mark.parametrize("value", [1e9, 3e38], ids=str)
def test_scales_beyond_float16_are_refused(type: GgmlType, value: float) -> None:
    values = np.full((1, 256), value, np.float32)
    values[0, ::2] *= -0.5
    weights = np.ones(256, np.float32) if type is GgmlType.IQ2_XXS else None
    for encoder in (ReferenceEncoder(), *NATIVE.values()):
        with pytest.raises(ValueError, match="use BF16 or F32"), np.errstate(all="ignore"):
            encoder.encode(values, type, weights)


@pytest.mark.parametrize("type", SEARCHED, ids=lambda type: type.name)
def test_weights_reach_their_matrix_whatever_their_form(type: GgmlType) -> None:
    rng = np.random.default_rng(5)
    values, weights = rng.standard_normal((3, 5, 512)).astype(np.float32), rng.random((3, 1, 512)).astype(np.float32)
    ours = NATIVE[LEVELS[-1]]
    same(ours.encode(values, type, weights), encode(values, type, weights), type)
    spelt = np.ascontiguousarray(np.broadcast_to(weights, values.shape))
    same(ours.encode(values, type, spelt), encode(values, type, spelt), type)
    same(ours.encode(values, type, weights[0, 0]), encode(values, type, weights[0, 0]), type)
    same(ours.encode(values[0, 0], type, weights[0, 0]), encode(values[0, 0], type, weights[0, 0]), type)


@pytest.mark.parametrize("type", SEARCHED, ids=lambda type: type.name)
def test_columns_that_nobody_has_seen_count_evenly(type: GgmlType) -> None:
    values = np.random.default_rng(5).standard_normal((4, 512)).astype(np.float32)
    weights = np.concatenate([np.zeros(256), np.random.default_rng(6).random(256)]).astype(np.float32)
    even = np.concatenate([np.ones(256, np.float32), weights[256:]])
    back = decode(NATIVE[LEVELS[-1]].encode(values, type, weights), type, values.shape)
    expected = decode(encode(values, type, even), type, values.shape)
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf], ids=str)
def test_impossible_weights_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        make_encoder(1).encode(np.ones((1, 256), np.float32), GgmlType.Q4_K, np.full(256, bad, np.float32))


def test_types_without_an_encoder_and_broken_rows_are_refused() -> None:
    encoder = make_encoder(1)
    with pytest.raises(ValueError, match="no encoder for Q3_K"):
        encoder.encode(np.zeros(256, np.float32), GgmlType.Q3_K)
    with pytest.raises(ValueError, match="blocks of 256"):
        encoder.encode(np.zeros((2, 128), np.float32), GgmlType.Q4_K)
    assert encoder.encode(np.zeros((0, 256), np.float32), GgmlType.Q4_K).size == 0


def test_the_native_method_checks_its_arrays() -> None:
    kernels = Kernels(1)
    values, out = np.zeros(256, np.float32), np.zeros(144, np.uint8)
    with pytest.raises(ValueError, match="out must be"):
        kernels.encode(int(GgmlType.Q4_K), values, None, out[:-1].copy())
    with pytest.raises(ValueError, match="importances must repeat"):
        kernels.encode(int(GgmlType.Q4_K), values, np.ones(512, np.float32), out)
    with pytest.raises(ValueError, match="come in blocks of 256"):
        kernels.encode(int(GgmlType.Q4_K), values, np.ones(255, np.float32), out)
    with pytest.raises(ValueError, match="needs importances"):
        kernels.encode(int(GgmlType.IQ2_XXS), values, None, np.zeros(66, np.uint8))
    with pytest.raises(ValueError, match="no encoder for GGUF type 11"):
        kernels.encode(int(GgmlType.Q3_K), values, None, np.zeros(110, np.uint8))
