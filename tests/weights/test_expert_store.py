"""Experts in slots of memory: each once, in order, with the right bytes, whatever the slots, the disk and the order."""

import os
from collections.abc import Sequence
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fakes.expert_files import bytes_of, write_experts
from fakes.faulty_files import FaultyFiles, late
from whitedwarf.errors import ModelReadError, OutOfMemoryError
from whitedwarf.weights.direct_reader import DirectReader
from whitedwarf.weights.expert_extents import Extent, LayerExtents
from whitedwarf.weights.expert_store import ExpertStore, Held, slot_bytes

LAYERS, EXPERTS = 4, 12
SMALL, LARGE = (700, 1300, 5000), (4096, 9000, 8191)
PATIENCE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[LayerExtents, ...]]:
    path = tmp_path_factory.mktemp("experts") / "model.bin"
    return path, write_experts(path, LAYERS, EXPERTS, [SMALL, LARGE])


def rows(*picked: Sequence[int]) -> np.ndarray:
    return np.array(picked, np.int32)


def check(path: Path, layer: LayerExtents, held: Held) -> None:
    assert tuple(held.matrices) == held.experts
    for expert, matrices in held.matrices.items():
        for matrix, extent in zip(matrices, layer.of(expert), strict=True):
            assert matrix.dtype == np.uint8
            assert matrix.tobytes() == bytes_of(path, extent)


def ask(store: ExpertStore, path: Path, layer: int, picked: np.ndarray) -> list[int]:
    """All rounds, checked; the experts in the order in which they came."""
    seen: list[int] = []
    for held in store.rounds(layer, picked):
        check(path, store.layers[layer], held)
        seen += held.experts
    assert seen == sorted(set(picked.ravel().tolist()))
    return seen


schedules = st.lists(
    st.tuples(
        st.integers(0, LAYERS - 1),
        st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=40),
        st.lists(st.tuples(st.integers(0, LAYERS - 1), st.integers(0, EXPERTS - 1)), max_size=4),
    ),
    min_size=1,
    max_size=12,
)


@given(schedules, st.integers(1, 60), st.integers(1, 4), st.integers(0, 3), st.booleans())
@PATIENCE
def test_any_schedule_gives_every_expert_once_in_order_with_its_bytes(
    model: tuple[Path, tuple[LayerExtents, ...]],
    schedule: list[tuple[int, list[int], list[tuple[int, int]]]],
    slots: int,
    in_flight: int,
    lateness: int,
    is_direct: bool,
) -> None:
    path, layers = model
    files = FaultyFiles(late(lambda offset: offset * 7919 % (lateness + 1) * 1e-4), is_direct=is_direct)
    with DirectReader([path], in_flight, files) as reader, ExpertStore(layers, reader, num_slots=slots) as store:
        for layer, picked, foreseen in schedule:
            for other, expert in foreseen:
                store.foresee(other, [expert])
            ask(store, path, layer, np.array(picked, np.int32)[:, None])
            assert store.cache.num_held <= store.cache.num_all_slots <= max(2, slots)
        needed = store.traffic.hits + store.traffic.misses
        assert needed == sum(len(set(picked)) for _, picked, _ in schedule)


@given(st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=60), st.integers(2, 24))
@PATIENCE
def test_each_missing_expert_is_read_once(
    model: tuple[Path, tuple[LayerExtents, ...]], picked: list[int], slots: int
) -> None:
    path, layers = model
    with DirectReader([path], 2) as reader, ExpertStore(layers, reader, num_slots=slots) as store:
        ask(store, path, 0, rows(*[[expert] for expert in picked]))
        assert store.traffic.loads == len(set(picked))
        assert store.traffic.misses == len(set(picked))


def test_the_second_time_nothing_is_read(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, ExpertStore(layers, reader) as store:
        ask(store, path, 1, rows([3, 5]))
        before = reader.bytes_read
        ask(store, path, 1, rows([5, 3]))
        assert reader.bytes_read == before
        assert store.traffic.hit_rate == 0.5


def test_an_experts_matrices_are_the_same_tuple_while_it_stays(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, ExpertStore(layers, reader) as store:
        (first,), (second,) = (list(store.rounds(0, rows([7]))) for _ in range(2))
        assert first.matrices[7] is second.matrices[7]


@pytest.mark.parametrize("budget_slots", [1, 2, 5, 30])
def test_slots_never_exceed_the_budget(model: tuple[Path, tuple[LayerExtents, ...]], budget_slots: int) -> None:
    path, layers = model
    sizes = {slot_bytes(layer) for layer in layers}
    budget = budget_slots * sum(sizes) + 17
    with DirectReader([path]) as reader, ExpertStore(layers, reader, budget) as store:
        assert sum(sizes) <= store.slots_bytes <= budget
        for layer in range(LAYERS):
            ask(store, path, layer, rows(range(EXPERTS)))
        assert store.held_bytes <= budget


def test_a_budget_of_less_than_one_expert_is_refused(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, pytest.raises(OutOfMemoryError, match="at least one expert"):
        ExpertStore(layers, reader, 1000)


def test_rounds_that_are_closed_half_way_give_their_slots_back(
    model: tuple[Path, tuple[LayerExtents, ...]],
) -> None:
    path, layers = model
    with DirectReader([path], 1, FaultyFiles(late(lambda _: 0.002))) as reader:
        store = ExpertStore(layers, reader, num_slots=6)
        rounds = store.rounds(0, rows(range(EXPERTS)))
        check(path, layers[0], next(rounds))
        rounds.close()
        for layer in range(LAYERS):
            ask(store, path, layer, rows(range(EXPERTS)))
        store.close()


def test_rounds_that_nobody_began_hold_nothing(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, ExpertStore(layers, reader, num_slots=2) as store:
        store.rounds(0, rows([1, 2]))
        ask(store, path, 0, rows([3, 4]))


def test_two_open_calls_that_need_the_same_slots_are_told(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, ExpertStore(layers, reader, num_slots=2) as store:
        first = store.rounds(0, rows([1]))
        next(first)
        with pytest.raises(RuntimeError, match="still open"):
            list(store.rounds(0, rows([2])))
        first.close()


class Broken:
    """A disk on which reads that touch one extent fail, while it is `on`."""

    def __init__(self, extent: Extent) -> None:
        self.extent, self.on = extent, True

    def __call__(self, offset_bytes: int, size_bytes: int) -> None:
        end = self.extent.offset_bytes + self.extent.size_bytes
        if self.on and offset_bytes < end and self.extent.offset_bytes < offset_bytes + size_bytes:
            raise OSError(5, "Input/output error")


@pytest.mark.parametrize("slots", [2, 8, 48])
def test_an_error_of_the_disk_is_one_error_and_the_next_call_works(
    model: tuple[Path, tuple[LayerExtents, ...]], slots: int
) -> None:
    path, layers = model
    broken = Broken(layers[0].of(6)[1])
    with DirectReader([path], 2, FaultyFiles(broken)) as reader, ExpertStore(layers, reader, num_slots=slots) as store:
        with pytest.raises(ModelReadError, match=r"model\.bin: expected .* but reading failed: Input/output error"):
            ask(store, path, 0, rows(range(EXPERTS)))
        ask(store, path, 1, rows(range(EXPERTS)))
        with pytest.raises(ModelReadError):
            ask(store, path, 0, rows([6]))
        broken.on = False
        for layer in range(LAYERS):
            ask(store, path, layer, rows(range(EXPERTS)))


@pytest.mark.parametrize("change", ["truncated", "rewritten", "longer"])
def test_a_file_that_changes_is_an_error_and_what_was_read_before_stays_right(tmp_path: Path, change: str) -> None:
    path, kept = tmp_path / "model.bin", tmp_path / "kept.bin"
    layers = write_experts(path, LAYERS, EXPERTS, [SMALL, LARGE])
    kept.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    with DirectReader([path]) as reader, ExpertStore(layers, reader) as store:
        ask(store, kept, 0, rows([3, 5]))
        size = path.stat().st_size
        if change == "rewritten":
            path.write_bytes(bytes(size))
        else:
            os.truncate(path, size // 2 if change == "truncated" else size + 1)
        with pytest.raises(ModelReadError, match="expected the file as it was opened"):
            list(store.rounds(0, rows([2, 3])))
        ask(store, kept, 0, rows([3, 5]))
        with pytest.raises(ModelReadError):
            list(store.rounds(3, rows(range(EXPERTS))))


@given(schedules, st.integers(26, 60))
@PATIENCE
def test_no_call_reads_an_expert_twice_or_one_that_was_there(
    model: tuple[Path, tuple[LayerExtents, ...]],
    schedule: list[tuple[int, list[int], list[tuple[int, int]]]],
    slots: int,
) -> None:
    path, layers = model
    with DirectReader([path], 2) as reader, ExpertStore(layers, reader, num_slots=slots) as store:
        for layer, picked, _ in schedule:
            before = store.cache.traffic.loads
            missing = sum(store.cache.slot(layer, expert) is None for expert in set(picked))
            ask(store, path, layer, np.array(picked, np.int32)[:, None])
            assert store.cache.traffic.loads - before == missing


def test_what_was_foreseen_in_vain_and_failed_disturbs_nobody(
    model: tuple[Path, tuple[LayerExtents, ...]],
) -> None:
    path, layers = model
    broken = Broken(layers[1].of(4)[2])
    with DirectReader([path], 2, FaultyFiles(broken)) as reader, ExpertStore(layers, reader) as store:
        store.foresee(1, [4, 9])
        ask(store, path, 1, rows([9]))
        broken.on = False
        ask(store, path, 1, rows([4]))
        assert (store.traffic.foreseen, store.traffic.foreseen_used, store.traffic.foreseen_unused) == (2, 1, 1)


def test_what_is_foreseen_is_not_read_again(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path], 2, FaultyFiles(late(lambda _: 0.003))) as reader, ExpertStore(layers, reader) as store:
        store.foresee(2, [1, 9])
        ask(store, path, 2, rows([9, 1]))
        assert store.traffic.loads == 2
        assert store.traffic.hits == 2


def test_a_profile_is_preloaded(model: tuple[Path, tuple[LayerExtents, ...]]) -> None:
    path, layers = model
    with DirectReader([path]) as reader, ExpertStore(layers, reader, num_slots=8) as store:
        store.cache.heat[2, [3, 4]] = 2
        store.cache.heat[1, 5] = 1
        assert store.preload(1) == 1
        assert store.preload() == 2
        before = reader.bytes_read
        ask(store, path, 2, rows([3, 4]))
        ask(store, path, 1, rows([5]))
        assert reader.bytes_read == before
