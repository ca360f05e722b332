"""Greedy tokens of nano on Triton kernels: 500 where there is a device, or when asked for.

An interpreted token takes some seconds, so without a device they are fewer: WHITEDWARF_GREEDY_TOKENS says how many.
The plain torch twins, with which every kernel is compared, do all 500 (test_torch_model.py).
"""

import os

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="triton is not installed: pip install 'whitedwarf[cuda]'")

from model.triton_models import DEVICE, decode, nano_models, tokens

NUM_TOKENS = int(os.environ.get("WHITEDWARF_GREEDY_TOKENS", "8" if DEVICE == "cpu" else "500"))


@pytest.mark.slow
def test_greedy_tokens_of_nano_are_those_of_the_cpu_backend() -> None:
    sequences = min(4, max(1, NUM_TOKENS // 8))
    decode(nano_models(), [tokens(1 + i, seed=i) for i in range(sequences)], NUM_TOKENS // sequences)


@pytest.mark.slow
def test_so_many_sequences_that_tensor_cores_are_used() -> None:
    decode(nano_models(), [tokens(1, seed=i) for i in range(16)], max(1, NUM_TOKENS // 16))
