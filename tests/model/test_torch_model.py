"""The whole model on the plain torch backend: the logits and the tokens of the CPU backend, in any chunks."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.model.state import SequenceState, StateSnapshot
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.torch_ops import TorchOps
from whitedwarf.weights.store import find_model

TOLERANCE = 1e-4  # of the logits' norm: f32 in another order


@pytest.fixture(scope="module")
def nanos() -> tuple[Transformer, Transformer]:
    """(truth, torch)."""
    gguf = open_gguf(find_model(None).path)
    return load_model(gguf, CpuOps(1, quality=True)).transformer, load_model(gguf, TorchOps()).transformer


def tokens(count: int, vocabulary: int = 4096, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocabulary, count).astype(np.int32)


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert np.linalg.norm(actual - expected) <= TOLERANCE * np.linalg.norm(expected)


def test_500_greedy_tokens_of_nano_are_those_of_the_cpu_backend(nanos: tuple[Transformer, Transformer]) -> None:
    """Of ten sequences side by side."""
    prompts = [tokens(5 * count, seed=count) for count in range(1, 11)]
    states = [[model.new_state() for _ in prompts] for model in nanos]
    ids = prompts
    for _ in range(50):
        expected, actual = (
            np.concatenate(model.forward([Span(*pair) for pair in zip(own, ids, strict=True)]))
            for model, own in zip(nanos, states, strict=True)
        )
        assert_close(actual, expected)
        assert (actual.argmax(axis=1) == expected.argmax(axis=1)).all()
        ids = [np.array([best], np.int32) for best in expected.argmax(axis=1)]


def test_chunks_and_companions_change_nothing(nanos: tuple[Transformer, Transformer]) -> None:
    model, ids = nanos[1], tokens(300)
    whole = model.forward([Span(model.new_state(), ids, "all")])[0]
    state, other, pieces = model.new_state(), model.new_state(), []
    for start, end in ((0, 100), (100, 101), (101, 140), (140, 300)):
        spans = [Span(other, tokens(7, seed=start), "last"), Span(state, ids[start:end], "all")]
        pieces.append(model.forward(spans)[1])
    assert (np.concatenate(pieces) == whole).all()


def test_a_saved_state_goes_from_one_backend_to_the_other(nanos: tuple[Transformer, Transformer]) -> None:
    cpu, device = nanos
    state = cpu.new_state()
    cpu.forward([Span(state, tokens(290), "none")])
    arrays = list(PackedArrays(cpu).of(state.snapshot()))
    there: StateSnapshot = PackedArrays(device).snapshot(290, arrays)
    back = list(PackedArrays(device).of(there))
    for mine, theirs in zip(arrays, back, strict=True):
        assert all((one == other).all() for one, other in zip(mine, theirs, strict=True))
    resumed: SequenceState = device.new_state()
    resumed.restore(there)
    more = tokens(3, seed=9)
    assert_close(device.forward([Span(resumed, more)])[0], cpu.forward([Span(state, more)])[0])


@pytest.mark.parametrize("file", ["tinyA/tiny-mxfp4.gguf", "tinyQ/tiny-iq2.gguf"])
def test_synthetic_models_of_other_quants_agree(file: str) -> None:
    with open_gguf(oracle_file(file)) as gguf:
        truth, model = (load_model(gguf, ops).transformer for ops in (CpuOps(1, quality=True), TorchOps()))
    ids = tokens(100, 512)
    [expected], [actual] = (m.forward([Span(m.new_state(), ids, "all")]) for m in (truth, model))
    assert_close(actual, expected)
