"""The whole model on Triton kernels and on the CPU backend, side by side."""

import numpy as np
import torch

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.triton_ops import TritonOps
from whitedwarf.weights.store import find_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FEW_ROWS = 16
FEW = 3e-3  # of the logits' norm: f32 in another order, and a stored number may be rounded to its other neighbour
MANY = 5e-2  # the middle row's: bf16, layer after layer; where two experts are nearly alike a row gets the other one
Nanos = tuple[Transformer, Transformer]  # truth, Triton


def nano_models() -> Nanos:
    gguf = open_gguf(find_model(None).path)
    truth, device = (load_model(gguf, ops).transformer for ops in (CpuOps(1, quality=True), TritonOps(DEVICE)))
    return truth, device


def tokens(count: int, vocabulary: int = 4096, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocabulary, count).astype(np.int32)


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert (np.median(errors) if tolerance == MANY else errors.max()) <= tolerance


def decode(models: Nanos, prompts: list[np.ndarray], num_tokens: int) -> None:
    """Greedy tokens of all prompts side by side: the same from both."""
    states = [[model.new_state() for _ in prompts] for model in models]
    ids, rows = prompts, 0
    for _ in range(num_tokens):
        expected, actual = (
            np.concatenate(model.forward([Span(*pair) for pair in zip(own, ids, strict=True)]))
            for model, own in zip(models, states, strict=True)
        )
        assert_close(actual, expected, FEW if max(rows, sum(map(len, ids))) < FEW_ROWS else MANY)
        rows = max(rows, sum(map(len, ids)))
        assert (actual.argmax(axis=1) == expected.argmax(axis=1)).all()
        ids = [np.array([best], np.int32) for best in expected.argmax(axis=1)]
