"""The bandwidth measure reads every byte exactly once."""

import numpy as np
import pytest

from whitedwarf._native import Kernels


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("words", [0, 1, 31, 100_003])
def test_every_word_is_read_once(threads, words):
    data = np.random.default_rng(words).integers(0, 2**63, words, dtype=np.uint64)
    assert Kernels(threads).read_all(data.view(np.uint8)) == int(np.bitwise_xor.reduce(data, initial=np.uint64(0)))
