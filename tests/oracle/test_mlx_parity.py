"""The whole forward pass on MLX: transformers' float32 logits, the native backend's tokens (README.md: tolerances)."""

import functools

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed (pip install 'mlx[cpu]')")

from oracle.engines import greedy, logits_of, model_at, oracle_model  # noqa: E402
from oracle.fixtures import oracle_arrays  # noqa: E402
from oracle.test_parity import BOUND, Q_BOUND, assert_same, prompt  # noqa: E402
from whitedwarf.weights.store import bundled_model  # noqa: E402

pytestmark = pytest.mark.mlx
GREEDY_TOKENS = 500


@pytest.mark.parametrize(("name", "chunk"), [("short", None), ("text", None), ("text", 33), ("medium", None)])
def test_f32_file_gives_the_reference_logits(name, chunk):
    ref = oracle_arrays("tinyA/ref.npz")
    assert_same(logits_of(oracle_model("tinyA/tiny-f32.gguf", "mlx"), ref[f"{name}_ids"], chunk), ref, name, Q_BOUND)


@pytest.mark.parametrize("name", ["short", "text", "medium"])
def test_flash_quant_mix_gives_the_reference_logits(name):
    _, positions, expected = prompt(ref := oracle_arrays("tinyQ/ref.npz"), name)
    got = logits_of(oracle_model("tinyQ/tiny-iq2.gguf", "mlx"), ref[f"{name}_ids"])[positions]
    before_choice = positions < 4 * 17  # 16 of at most 16 blocks are picked until then: nothing to choose
    assert np.abs(got - expected)[before_choice].max() <= Q_BOUND
    assert np.abs(got - expected).max() <= BOUND


@pytest.mark.parametrize("name", ["short", "text"])
def test_mxfp4_file_gives_the_native_backend_s_logits(name):
    ids = oracle_arrays("tinyA/ref.npz")[f"{name}_ids"]
    ours, native = (logits_of(oracle_model("tinyA/tiny-mxfp4.gguf", backend), ids) for backend in ("mlx", "cpu"))
    assert np.abs(ours - native).max() <= Q_BOUND


@pytest.mark.skipif(mx.metal.is_available(), reason="on Metal few rows are added up otherwise than many")
@pytest.mark.parametrize("kv_cache", ["packed", "f32"])
@pytest.mark.parametrize("chunk", [7, 31, 90])
def test_chunks_change_no_bit(kv_cache, chunk):
    model, ids = (
        oracle_model("tinyQ/tiny-iq2.gguf", "mlx", kv_cache),
        oracle_arrays("tinyQ/ref.npz")["medium_ids"][:100],
    )
    assert (logits_of(model, ids, chunk) == whole_logits(kv_cache)).all()


@functools.cache
def whole_logits(kv_cache: str) -> np.ndarray:
    ids = oracle_arrays("tinyQ/ref.npz")["medium_ids"][:100]
    return logits_of(oracle_model("tinyQ/tiny-iq2.gguf", "mlx", kv_cache), ids)


def test_greedy_decoding_gives_the_reference_tokens():
    ref = oracle_arrays("tinyA/ref.npz")
    expected = ref["short_gen_ids"][-48:][:24].tolist()
    assert greedy(oracle_model("tinyA/tiny-f32.gguf", "mlx"), ref["short_ids"], 24) == expected


def test_nano_decodes_the_500_greedy_tokens_of_the_native_backend():
    """The likeliest token after each of those before is the next one; as chunks change no bit, decoding gives them."""
    native, ours = (model_at(bundled_model(), name, "packed") for name in ("cpu", "mlx"))
    start = np.random.default_rng(1).integers(100, 4000, 30).astype(np.int32)
    tokens = greedy(native, start, GREEDY_TOKENS)
    ids = np.concatenate([start, np.array(tokens, np.int32)])
    logits, expected = logits_of(ours, ids[:-1]), logits_of(native, ids[:-1])
    assert logits[len(start) - 1 :].argmax(axis=1).tolist() == tokens
    assert np.abs(logits - expected).max() <= BOUND
    assert greedy(ours, start, 25) == tokens[:25]
