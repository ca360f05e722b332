"""Every CPU level and any number of threads give the same logits: prefill, decode and a batch, to the last bit."""

import functools

import numpy as np
import pytest

from oracle.fixtures import oracle_file
from whitedwarf._native import Kernels
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.ops.cpu import CpuOps

FILES = {"iq2": "tinyQ/tiny-iq2.gguf", "mxfp4": "tinyA/tiny-mxfp4.gguf", "f32": "tinyA/tiny-f32.gguf"}
LEVELS = Kernels.available_levels()
THREADS = (1, 2, 3, 7)
IDS = np.random.default_rng(5).integers(0, 512, 300).astype(np.int32)


def logits(file, level, threads):
    """Rows of a long prompt in two chunks, of five single tokens, and of three sequences side by side."""
    model = load_model(open_gguf(oracle_file(FILES[file])), CpuOps(threads, False, level), "packed").transformer
    state, others = model.new_state(), [model.new_state(), model.new_state()]
    spans = [[Span(state, IDS[:180], "all")], [Span(state, IDS[180:290], "all")]]
    spans += [[Span(state, IDS[i : i + 1], "all")] for i in range(290, 295)]
    spans += [[Span(state, IDS[295:296], "all"), *(Span(other, IDS[:9], "all") for other in others)]]
    return np.concatenate([rows for batch in spans for rows in model.forward(batch)])


@functools.cache
def scalar_logits(file):
    return logits(file, "scalar", 1)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("level", LEVELS)
def test_neither_level_nor_threads_change_a_bit(file, level, threads):
    assert logits(file, level, threads).tobytes() == scalar_logits(file).tobytes()
