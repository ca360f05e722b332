"""Integer activations beside float ones: no further from the truth than llama.cpp's own kernels are.

The ceilings are llama.cpp's worst mean KL on these files (tests/golden/oracle/README.md): small random nets amplify
noise. Per tensor the bound is in tests/native/test_linear.py.
"""

import numpy as np
import pytest

from oracle.engines import logits_of, oracle_model
from oracle.fixtures import oracle_arrays

PROMPTS = ("short", "text", "medium", "long")
LLAMA_CPP_TINYQ = 0.087
LLAMA_CPP_TINYA_MXFP4 = 0.051


def divergence(truth: np.ndarray, got: np.ndarray) -> np.ndarray:
    """KL(truth || got) per row of logits."""
    p, q = (_log_softmax(logits.astype(np.float64)) for logits in (truth, got))
    return (np.exp(p) * (p - q)).sum(axis=1)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", PROMPTS)
def test_the_flash_quant_mix_diverges_no_more_than_llama_cpp(name):
    ref = oracle_arrays("tinyQ/ref.npz")
    got = logits_of(oracle_model("tinyQ/tiny-iq2.gguf", quality=False), ref[f"{name}_ids"])
    assert 0 < divergence(ref[f"{name}_logits"], got[ref[f"{name}_pos"]]).mean() <= LLAMA_CPP_TINYQ


@pytest.mark.parametrize("name", PROMPTS)
def test_mxfp4_experts_diverge_no_more_than_llama_cpp(name):
    ids = oracle_arrays("tinyA/ref.npz")[f"{name}_ids"]
    exact, got = (logits_of(oracle_model("tinyA/tiny-mxfp4.gguf", quality=quality), ids) for quality in (True, False))
    assert 0 < divergence(exact, got).mean() <= LLAMA_CPP_TINYA_MXFP4
