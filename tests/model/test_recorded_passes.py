"""Decode passes of the Triton backend depend on nothing but numbers that lie in the arena and in sequences' stores.

A fake graph (tests/fakes/torch_graphs.py) makes the very call again that was recorded, with the batch of that time:
other sequences, other positions. Whatever a pass took from Python instead of the device would be wrong.
"""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'whitedwarf[cuda]'")

from fakes.torch_graphs import CalledAgain
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.model.base import Span
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.graphs import Recorder
from whitedwarf.ops.seeded import SeededOps, seeded_tensors
from whitedwarf.ops.torch_ops import TorchOps
from whitedwarf.ops.triton.interpretation import IS_INTERPRETED
from whitedwarf.ops.triton_ops import TritonOps

LENGTHS = ((126, 3), (31, 2))  # of two sequences, then of two others; in each a window closes
TOLERANCE = 1e-4


def model(ops: TorchOps) -> Transformer:
    """One layer of each kind."""
    hp = model_shape("tiny", layers=4)
    return Transformer.load(seeded_tensors(hp, "q8"), ModelConfig(hp, "f32"), SeededOps.around(ops))


def read(own: Transformer, lengths: tuple[int, ...]) -> list[SequenceState]:
    states = [own.new_state() for _ in lengths]
    for state, length in zip(states, lengths, strict=True):
        own.forward([Span(state, np.arange(length, dtype=np.int32), "none")])
    return states


def step(own: Transformer, states: list[SequenceState], ids: np.ndarray) -> np.ndarray:
    return np.concatenate(own.forward([Span(state, ids[i : i + 1]) for i, state in enumerate(states)]))


@pytest.mark.slow
@pytest.mark.skipif(not IS_INTERPRETED, reason="a device is here: recordings are tested on it (scripts/gpu_check.py)")
def test_a_replay_has_the_numbers_of_its_pass_for_any_sequences_at_any_positions() -> None:
    ops, maker = TritonOps("cpu"), CalledAgain()
    ops.recorder = Recorder(ops.arena, maker)
    recording, truth = model(ops), model(TorchOps())
    rng = np.random.default_rng(0)
    for lengths, steps in zip(LENGTHS, (2, 1), strict=True):
        held, expected_held = (
            read(truth, lengths),
            read(truth, lengths),
        )  # a prompt is read more quickly without kernels
        for _ in range(steps):
            ids = rng.integers(0, 512, len(lengths)).astype(np.int32)
            actual, expected = step(recording, held, ids), step(truth, expected_held, ids)
            errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
            assert errors.max() < TOLERANCE
    assert maker.num_recorded == 1
    assert ops.recorder.num_replayed == 2
