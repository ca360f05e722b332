"""Every CPU level and any number of threads give the same logits: prefill, decode and a batch, to the last bit.

But for the amx level over packed rows, whose attention rounds its own way: there threads change no bit, and the logits
are near those of the other levels where activations stay floats. (Activations of 8 bits make something of any rounding:
attention nudged by 1.2e-7 moves logits as far.)"""

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


def logits(file, level, threads, quality=False, kv_cache="packed"):
    """Rows of a long prompt in two chunks, of five single tokens, and of three sequences side by side."""
    model = load_model(open_gguf(oracle_file(FILES[file])), CpuOps(threads, quality, level), kv_cache).transformer
    state, others = model.new_state(), [model.new_state(), model.new_state()]
    spans = [[Span(state, IDS[:180], "all")], [Span(state, IDS[180:290], "all")]]
    spans += [[Span(state, IDS[i : i + 1], "all")] for i in range(290, 295)]
    spans += [[Span(state, IDS[295:296], "all"), *(Span(other, IDS[:9], "all") for other in others)]]
    return np.concatenate([rows for batch in spans for rows in model.forward(batch)])


@functools.cache
def expected_logits(file, level, quality=False, kv_cache="packed"):
    return logits(file, level, 1, quality, kv_cache)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("level", LEVELS)
def test_neither_level_nor_threads_change_a_bit(file, level, threads):
    like = "amx" if level == "amx" else "scalar"
    assert logits(file, level, threads).tobytes() == expected_logits(file, like).tobytes()


@pytest.mark.skipif("amx" not in LEVELS, reason="needs a processor with AMX")
@pytest.mark.parametrize("file", FILES)
def test_amx_is_near_the_other_levels_over_packed_rows_and_equal_over_others(file):
    """Where a value lies on the edge between two FP8 codes, rounding decides, and later rows follow: not many do."""
    near, exact = expected_logits(file, "amx", quality=True), expected_logits(file, "scalar", quality=True)
    assert np.median(np.abs(near - exact)) <= 5e-5
    assert (np.abs(near - exact).max(axis=1) <= 1e-3).mean() >= 0.9
    assert (near.argmax(-1) == exact.argmax(-1)).all()
    same = [expected_logits(file, level, kv_cache="f16").tobytes() for level in ("amx", "scalar")]
    assert same[0] == same[1]
