"""Greedy tokens of nano on Triton kernels: 500 where there is a device, or when asked for.

An interpreted token takes a second or more, so without a device it is fewer: WHITEDWARF_GREEDY_TOKENS says how many.
"""

import os

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="triton is not installed: pip install 'whitedwarf[cuda]'")

from model.triton_models import DEVICE, decode, nano_models, tokens

NUM_TOKENS = int(os.environ.get("WHITEDWARF_GREEDY_TOKENS", "40" if DEVICE == "cpu" else "500"))
NUM_SEQUENCES = 4


@pytest.mark.slow
def test_greedy_tokens_of_nano_are_those_of_the_cpu_backend() -> None:
    decode(nano_models(), [tokens(1 + i, seed=i) for i in range(NUM_SEQUENCES)], NUM_TOKENS // NUM_SEQUENCES)


@pytest.mark.slow
def test_so_many_sequences_that_tensor_cores_are_used() -> None:
    decode(nano_models(), [tokens(1, seed=i) for i in range(16)], max(1, NUM_TOKENS // 32))
