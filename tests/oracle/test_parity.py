"""The whole forward pass against transformers' float32 logits (tests/golden/oracle/README.md has the tolerances)."""

import functools

import numpy as np
import pytest

from oracle.engines import greedy, logits_of, model_at, oracle_model, watched
from oracle.fixtures import oracle_arrays, oracle_file
from whitedwarf.gguf.convert import ConvertOptions, convert

PROMPTS = ("short", "text", "medium", "long")
CHUNKS = (1, 2, 3, 4, 31, 32, 33, 127, 128, 129, 512)
BOUND = 1e-3
Q_BOUND = 1e-4


def prompt(ref, name):
    return ref[f"{name}_ids"], ref[f"{name}_pos"], ref[f"{name}_logits"]


def assert_same(logits, ref, name, bound):
    _, positions, expected = prompt(ref, name)
    got = logits[positions]
    assert np.abs(got - expected).max() <= bound
    assert (got.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert (logits.argmax(axis=1) == ref[f"{name}_top5"][:, 0]).all(), "argmax at every position"


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """tinyA's release checkpoints through our own converter."""
    folder = tmp_path_factory.mktemp("converted")
    paths = {}
    for form in ("src", "hf"):
        paths[form] = folder / f"{form}.gguf"
        convert(oracle_file(f"tinyA/{form}"), paths[form], ConvertOptions(outtype="f32"))
    return paths


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("chunk", [None, *CHUNKS])
def test_f32_file_gives_the_reference_logits_in_any_chunks(name, chunk):
    ref = oracle_arrays("tinyA/ref.npz")
    model = oracle_model("tinyA/tiny-f32.gguf")
    assert_same(logits_of(model, ref[f"{name}_ids"], chunk), ref, name, BOUND)


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize(("form", "chunk"), [*(("src", chunk) for chunk in (None, *CHUNKS)), ("hf", None), ("hf", 33)])
def test_release_checkpoint_through_our_converter_gives_the_reference_logits(converted, form, chunk, name):
    ref = oracle_arrays("tinyA/ref.npz")
    assert_same(logits_of(model_at(converted[form]), ref[f"{name}_ids"], chunk), ref, name, BOUND)


@pytest.mark.parametrize("name", PROMPTS[:3])
def test_numpy_reference_backend_gives_the_reference_logits(name):
    ref = oracle_arrays("tinyA/ref.npz")
    model = oracle_model("tinyA/tiny-f32.gguf", "reference")
    assert_same(logits_of(model, ref[f"{name}_ids"]), ref, name, Q_BOUND)


@functools.cache
def dequantised_logits(name):
    """tinyA's MXFP4 file on the numpy backend: its own dequantised weights in float64."""
    return logits_of(oracle_model("tinyA/tiny-mxfp4.gguf", "reference"), oracle_arrays("tinyA/ref.npz")[f"{name}_ids"])


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("chunk", [None, *CHUNKS])
def test_mxfp4_file_equals_its_own_dequantised_weights(name, chunk):
    truth = dequantised_logits(name)
    got = logits_of(oracle_model("tinyA/tiny-mxfp4.gguf"), oracle_arrays("tinyA/ref.npz")[f"{name}_ids"], chunk)
    assert np.abs(got - truth).max() <= BOUND
    assert (got.argmax(axis=1) == truth.argmax(axis=1)).all()


@pytest.mark.parametrize("name", ["short", "medium"])
def test_greedy_decoding_gives_the_reference_tokens(name):
    ref = oracle_arrays("tinyA/ref.npz")
    expected = ref[f"{name}_gen_ids"][-48:].tolist()
    assert greedy(oracle_model("tinyA/tiny-f32.gguf"), ref[f"{name}_ids"], 48) == expected


def test_picked_experts_and_compressed_rows_are_those_of_the_reference():
    ref = oracle_arrays("tinyA/ref.npz")
    seen = watched(oracle_model("tinyA/tiny-f32.gguf"), ref["medium_ids"])
    for layer in (3, 4, 5):  # the layers before route by token table
        expected = np.sort(ref[f"router_{layer}"], axis=1)
        assert (np.sort(seen["experts_picked", layer], axis=1) == expected).all()
    for layer in (2, 4):
        expected = np.sort(ref[f"index_{layer}"], axis=1)
        assert (np.sort(seen["index_picked", layer], axis=1) == expected).all()


def test_streams_entering_every_layer_are_those_of_the_reference():
    ref = oracle_arrays("tinyA/ref.npz")
    seen = watched(oracle_model("tinyA/tiny-f32.gguf"), ref["short_ids"])
    streams = np.stack([seen["streams", layer] for layer in range(7)])
    assert np.abs(streams - ref["short_hidden"]).max() <= 1e-4
    assert np.abs(seen["head_input", 6] - ref["short_final"]).max() <= 1e-4


@pytest.mark.parametrize("name", PROMPTS)
def test_flash_quant_mix_with_float_activations_gives_the_reference_logits(name):
    ref = oracle_arrays("tinyQ/ref.npz")
    got = logits_of(oracle_model("tinyQ/tiny-iq2.gguf"), ref[f"{name}_ids"])
    positions, expected = ref[f"{name}_pos"], ref[f"{name}_logits"]
    before_choice = positions < 4 * 17  # 16 of at most 16 blocks are picked until then: nothing to choose
    difference = np.abs(got[positions] - expected)
    assert difference[before_choice].max() <= Q_BOUND
    assert difference.max() <= BOUND
