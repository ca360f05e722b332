"""The whole model on the plain torch backend: the logits and the tokens of the CPU backend, in any chunks."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")

import torch

from oracle.fixtures import oracle_file
from whitedwarf.errors import OutOfMemoryError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.model.state import SequenceState, StateSnapshot
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.torch_ops import TorchOps
from whitedwarf.weights.store import find_model

TOLERANCES = {  # of the logits' norm
    "f32": 1e-4,  # another order of sums
    "packed": 3e-3,  # which now and then rounds a stored number to its other neighbour
}
Nanos = tuple[str, Transformer, Transformer]  # how rows are stored, truth, torch


@pytest.fixture(scope="module", params=["packed", "f32"])
def nanos(request: pytest.FixtureRequest) -> Nanos:
    gguf, cache = open_gguf(find_model(None).path), request.param
    truth, device = (load_model(gguf, ops, cache).transformer for ops in (CpuOps(1, quality=True), TorchOps()))
    return cache, truth, device


def tokens(count: int, vocabulary: int = 4096, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocabulary, count).astype(np.int32)


def assert_close(actual: np.ndarray, expected: np.ndarray, cache: str) -> None:
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert errors.max() <= TOLERANCES[cache]


def test_500_greedy_tokens_of_nano_are_those_of_the_cpu_backend(nanos: Nanos) -> None:
    """Of ten sequences side by side."""
    cache, *models = nanos
    prompts = [tokens(5 * count, seed=count) for count in range(1, 11)]
    states = [[model.new_state() for _ in prompts] for model in models]
    ids = prompts
    for _ in range(50):
        expected, actual = (
            np.concatenate(model.forward([Span(*pair) for pair in zip(own, ids, strict=True)]))
            for model, own in zip(models, states, strict=True)
        )
        assert_close(actual, expected, cache)
        assert (actual.argmax(axis=1) == expected.argmax(axis=1)).all()
        ids = [np.array([best], np.int32) for best in expected.argmax(axis=1)]


def test_chunks_and_companions_change_nothing(nanos: Nanos) -> None:
    model, ids = nanos[2], tokens(300)
    whole = model.forward([Span(model.new_state(), ids, "all")])[0]
    state, other, pieces = model.new_state(), model.new_state(), []
    for start, end in ((0, 100), (100, 101), (101, 140), (140, 300)):
        spans = [Span(other, tokens(7, seed=start), "last"), Span(state, ids[start:end], "all")]
        pieces.append(model.forward(spans)[1])
    assert (np.concatenate(pieces) == whole).all()


def test_a_saved_state_goes_from_one_backend_to_the_other(nanos: Nanos) -> None:
    cache, cpu, device = nanos
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
    assert_close(device.forward([Span(resumed, more)])[0], cpu.forward([Span(state, more)])[0], cache)


@pytest.mark.parametrize("file", ["tinyA/tiny-mxfp4.gguf", "tinyQ/tiny-iq2.gguf"])
def test_synthetic_models_of_other_quants_agree(file: str) -> None:
    with open_gguf(oracle_file(file)) as gguf:
        truth, model = (load_model(gguf, ops, "f32").transformer for ops in (CpuOps(1, True), TorchOps()))
    ids = tokens(100, 512)
    [expected], [actual] = (m.forward([Span(m.new_state(), ids, "all")]) for m in (truth, model))
    assert_close(actual, expected, "f32")


def test_a_device_that_runs_out_of_memory_says_what_to_do() -> None:
    def run(batch: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore lines")

    with pytest.raises(OutOfMemoryError, match=r"cpu does not hold .* --prefill-chunk.*2\.00 GiB\.\)$"):
        TorchOps().passing(run, None)
