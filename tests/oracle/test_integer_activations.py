"""Integer activations beside float ones: no further from the truth than llama.cpp's own kernels are.

The ceilings are llama.cpp's worst mean KL on these files (tests/golden/oracle/README.md), and on tinyQ its mean over
the prompts too (docs/log.md): small random nets amplify noise, and single prompts go either way. Per tensor the bound
is in tests/native/test_linear.py.
"""

import numpy as np
import pytest

from oracle.engines import logits_of, oracle_model
from oracle.fixtures import oracle_arrays

PROMPTS = ("short", "text", "medium", "long")
LLAMA_CPP_TINYQ = 0.087
LLAMA_CPP_TINYQ_PROMPTS = (0.0057, 0.0872, 0.0620, 0.0277)
LLAMA_CPP_TINYA_MXFP4 = 0.051


def divergence(truth: np.ndarray, got: np.ndarray) -> np.ndarray:
    """KL(truth || got) per row of logits."""
    p, q = (_log_softmax(logits.astype(np.float64)) for logits in (truth, got))
    return (np.exp(p) * (p - q)).sum(axis=1)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def test_the_flash_quant_mix_diverges_no_more_than_llama_cpp():
    ref, model = oracle_arrays("tinyQ/ref.npz"), oracle_model("tinyQ/tiny-iq2.gguf", quality=False)
    means = []
    for name in PROMPTS:
        got = logits_of(model, ref[f"{name}_ids"])[ref[f"{name}_pos"]]
        means.append(divergence(ref[f"{name}_logits"], got).mean())
    assert min(means) > 0
    assert max(means) <= LLAMA_CPP_TINYQ
    assert np.mean(means) <= np.mean(LLAMA_CPP_TINYQ_PROMPTS)


@pytest.mark.parametrize("name", PROMPTS)
def test_mxfp4_experts_diverge_no_more_than_llama_cpp(name):
    ids = oracle_arrays("tinyA/ref.npz")[f"{name}_ids"]
    exact, got = (logits_of(oracle_model("tinyA/tiny-mxfp4.gguf", quality=quality), ids) for quality in (True, False))
    assert 0 < divergence(exact, got).mean() <= LLAMA_CPP_TINYA_MXFP4
