"""Recorded passes: which are recorded, that a replay has the numbers of its pass, what happens where none can be."""

import gc
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")

import torch

from fakes.torch_graphs import CalledAgain
from whitedwarf.ops.arena import Arena
from whitedwarf.ops.graphs import Recorder, bucket, closing_windows


@dataclass
class Numbers:
    """A pass over a few numbers; `most` decides what kind it is."""

    ids: Any
    scale: Any
    most: int = 64
    is_decode: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        return len(self.ids), self.most


@dataclass
class Owner:
    """A model: counts how often it really ran."""

    factor: int
    num_runs: int = 0

    def run(self, batch: Numbers) -> Any:
        self.num_runs += 1
        return batch.ids * batch.scale * self.factor

    def other(self, batch: Numbers) -> Any:
        return batch.ids + batch.scale


@dataclass
class Setting:
    """A recorder and all around it."""

    arena: Arena
    maker: CalledAgain
    recorder: Recorder

    def numbers(self, ids: list[int], scale: float = 1.0, **kind: Any) -> Numbers:
        values = np.array(ids, np.int32), np.array([scale], np.float32)
        return Numbers(*self.arena.place("arrays", values, rows=len(ids)), **kind)

    def result(self, run: Any, ids: list[int], scale: float = 1.0, **kind: Any) -> list[float]:
        result: list[float] = self.recorder.passing(run, self.numbers(ids, scale, **kind)).tolist()
        return result


def setting(error: Exception | None = None, most: int = 64) -> Setting:
    arena, maker = Arena(torch.device("cpu")), CalledAgain(error)
    return Setting(arena, maker, Recorder(arena, maker, most))


def test_the_second_pass_of_a_kind_is_recorded_and_later_ones_are_replayed_with_their_own_numbers():
    here, owner = setting(), Owner(2)
    results = [here.result(owner.run, [i, i + 1], i) for i in range(1, 6)]
    assert results == [[2.0 * i * i, 2.0 * i * (i + 1)] for i in range(1, 6)]
    assert (here.maker.num_recorded, here.maker.num_replayed, here.recorder.num_replayed) == (1, 4, 4)


def test_kinds_differ_in_owner_function_sizes_and_number_of_sequences():
    here, owners = setting(), [Owner(2), Owner(3)]
    for _ in range(3):
        assert here.result(owners[0].run, [1, 2]) == [2.0, 4.0]
        assert here.result(owners[1].run, [1, 2]) == [3.0, 6.0]
        assert here.result(owners[0].other, [1, 2]) == [2.0, 3.0]
        assert here.result(owners[0].run, [1, 2], most=96) == [2.0, 4.0]
        assert here.result(owners[0].run, [1, 2, 3]) == [2.0, 4.0, 6.0]
    assert here.maker.num_recorded == here.recorder.num_recordings == 5


def test_what_is_no_decode_or_large_or_nobodys_runs_as_it_is():
    here, owner = setting(), Owner(1)
    for _ in range(3):
        here.result(owner.run, [1], is_decode=False)
        here.result(owner.run, list(range(65)))
        here.result(lambda batch: batch.ids, [1])
    assert owner.num_runs == 6
    assert here.maker.num_recorded == 0


def test_without_a_maker_everything_runs_as_it_is():
    arena, owner = Arena(torch.device("cpu")), Owner(1)
    recorder = Recorder(arena, None)
    here = Setting(arena, CalledAgain(), recorder)
    assert [here.result(owner.run, [i]) for i in range(3)] == [[0.0], [1.0], [2.0]]
    assert owner.num_runs == 3
    assert recorder.num_replayed == 0


def test_a_failure_to_record_is_told_once_and_passes_go_on(caplog):
    here, owner = setting(RuntimeError("operation not permitted when stream is capturing")), Owner(2)
    with caplog.at_level(logging.WARNING):
        assert [here.result(owner.run, [i], most=64 * (1 + i % 2)) for i in range(12)] == [[2.0 * i] for i in range(12)]
    [message] = [record.getMessage() for record in caplog.records]
    assert "could not be recorded" in message
    assert "operation not permitted" in message


@pytest.mark.parametrize(
    "ask",
    [
        lambda ids: ids.sum().item(),
        lambda ids: ids[ids > 0],
        lambda ids: ids + torch.tensor([1]),
        lambda ids: ids.unique(),
    ],
)
def test_the_fake_refuses_what_a_device_refuses(ask: Any) -> None:
    ids = torch.ones(3)
    with pytest.raises(RuntimeError, match="not permitted"):
        CalledAgain().record(lambda: ask(ids))()


def test_the_oldest_kinds_are_dropped():
    here, owner = setting(most=2), Owner(1)
    for most in (1, 2, 3):
        for _ in range(2):
            here.result(owner.run, [1], most=most)
    assert here.recorder.num_recordings == 2
    here.result(owner.run, [1], most=1)  # runs as it is, as if for the first time
    assert here.maker.num_recorded == 3
    here.recorder.forget()
    assert here.recorder.num_recordings == 0


def test_memory_of_a_recording_is_never_given_to_another():
    """Not even when the arena has long dropped it."""
    here, owner = setting(), Owner(1)
    here.arena.most_buffers = 1
    for _ in range(2):
        here.result(owner.run, [1, 2])
    here.result(owner.run, [1, 2, 3])
    gc.collect()
    assert here.result(owner.run, [4, 5]) == [4.0, 5.0]
    assert here.result(owner.run, [6, 7]) == [6.0, 7.0]


def test_small_passes_of_the_same_shapes_lie_at_the_same_addresses():
    arena = Arena(torch.device("cpu"))
    places = []
    for i in range(3):
        arena.place("spans", [np.arange(i, i + 4, dtype=np.int64)], rows=2)
        ids, turns = arena.place("arrays", [np.full(2, i, np.int32), np.full((2, 3, 2), i, np.float32)], rows=2)
        assert (ids.tolist(), turns.shape, turns.mean().item()) == ([i, i], (2, 3, 2), i)
        places.append((ids.data_ptr(), turns.data_ptr(), arena.stamp))
        assert turns.data_ptr() % 64 == 0
        assert arena.current is not None
        arena.place("arrays", [np.zeros(5, np.int32)], rows=5)  # another kind in between
    assert len(set(places)) == 1


def test_a_large_pass_has_memory_of_its_own():
    arena = Arena(torch.device("cpu"))
    values = [np.zeros(100, np.int32), np.empty((0, 4, 2), np.float32)]
    first, second = (arena.place("arrays", values, rows=100) for _ in range(2))
    assert first[0].data_ptr() != second[0].data_ptr()
    assert first[1].shape == (0, 4, 2)
    assert arena.stamp is None


def test_an_array_of_another_type_is_refused():
    with pytest.raises(ValueError, match="float64 has no place"):
        Arena(torch.device("cpu")).place("arrays", [np.zeros(2)], rows=2)


def test_buckets_are_few_and_never_below():
    for count in range(5000):
        assert bucket(count) >= count
        assert bucket(count) <= max(64, count * 3 // 2)
    assert sorted({bucket(count) for count in range(600)}) == [64, 96, 128, 192, 256, 384, 512, 768]


def test_every_row_of_a_decode_has_room_for_a_window():
    assert [closing_windows(1, 3, 3), closing_windows(7, 2, 30)] == [3, 7]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no device")
def test_a_real_graph_replays_with_new_numbers_and_failing_ones_do_no_harm():
    from whitedwarf.ops.graphs import CudaGraphs

    device = torch.device("cuda")
    arena, owner = Arena(device), Owner(3)
    here = Setting(arena, CalledAgain(), Recorder(arena, CudaGraphs(device)))
    assert [here.result(owner.run, [i, 2 * i]) for i in range(6)] == [[3.0 * i, 6.0 * i] for i in range(6)]
    assert here.recorder.num_replayed == 4

    class Asking(Owner):
        def run(self, batch: Numbers) -> Any:
            return batch.ids * batch.scale.item()

    asking = Asking(1)
    assert [here.result(asking.run, [i], 2.0) for i in range(4)] == [[2.0 * i] for i in range(4)]
    assert here.result(owner.run, [7, 8]) == [21.0, 24.0]
