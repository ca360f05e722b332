"""Decode passes of the Triton backend depend on nothing but numbers that lie in the arena and in sequences' stores.

A fake graph (tests/fakes/torch_graphs.py) makes the very call again that was recorded, with the batch of that time: other
sequences, other positions. Whatever a pass took from Python instead of the device would be wrong.
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
from whitedwarf.ops.triton_ops import TritonOps


def model(ops: TritonOps) -> Transformer:
    """One layer of each kind."""
    hp = model_shape("tiny", layers=4)
    return Transformer.load(seeded_tensors(hp, "q8"), ModelConfig(hp), SeededOps.around(ops))


def step(own: Transformer, states: list[SequenceState], ids: np.ndarray) -> np.ndarray:
    return np.concatenate(own.forward([Span(state, ids[i : i + 1]) for i, state in enumerate(states)]))


def test_a_replay_gives_the_bits_of_a_pass_for_any_sequences_at_any_positions() -> None:
    recording, maker = TritonOps("cpu"), CalledAgain()
    recording.recorder = Recorder(recording.arena, maker)
    models = model(recording), model(TritonOps("cpu"))
    rng = np.random.default_rng(0)
    kept: list[SequenceState] = []
    for lengths, steps in (((5, 126), 4), ((31, 2), 2)):
        held = [[own.new_state() for _ in lengths] for own in models]
        for own, states in zip(models, held, strict=True):
            for state, length in zip(states, lengths, strict=True):
                own.forward([Span(state, np.arange(length, dtype=np.int32), "none")])
        for _ in range(steps):
            ids = rng.integers(0, 512, len(lengths)).astype(np.int32)
            ours, theirs = (step(own, states, ids) for own, states in zip(models, held, strict=True))
            np.testing.assert_array_equal(ours, theirs)
        kept += held[0]
    assert maker.num_recorded == 1
    assert recording.recorder.num_replayed == 5
