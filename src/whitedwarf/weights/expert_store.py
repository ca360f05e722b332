"""Routed experts of a model that is larger than memory: the hot ones in slots, the rest read when they are needed.

Promises, of one call of `rounds`: every picked expert is handed out exactly once, in ascending order over all rounds,
with exactly its bytes in the file; each that was missing is read at most once; with any number of slots, at least one.
Slots never exceed the budget. After an error of the disk the next call works again if the disk does.

One thread calls it; the reader's threads only read. Slots hold the file's bytes as they are. Knows no routing, no
arithmetic and no backend: the policy is `expert_cache`, the bytes come through `direct_reader`.
"""

from bisect import insort
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import ModelReadError
from whitedwarf.weights.direct_reader import Bytes, DirectReader, Reading, room_bytes
from whitedwarf.weights.expert_cache import HALF_LIFE_TOKENS, Admission, ExpertCache, Fetch, Load
from whitedwarf.weights.expert_extents import LayerExtents
from whitedwarf.weights.locked_memory import LockSystem, OsLocking
from whitedwarf.weights.slot_memory import PoolShape, SlotMemory, allocated, slots_of_number, slots_within

PASSING_AHEAD = 16  # experts of a prompt that are read ahead, and so many slots at most that it takes from others
FORESEEN_AHEAD = 12  # experts on their way that nobody asked for yet

Matrices: TypeAlias = tuple[Bytes, Bytes, Bytes]  # gate, up, down


@dataclass(frozen=True, slots=True)
class Held:
    """Experts that are in memory until the next round is asked for, or the rounds are closed.

    An expert's matrices are the same tuple for as long as it stays in its slot.
    """

    experts: tuple[int, ...]  # ascending
    matrices: Mapping[int, Matrices]


@dataclass(frozen=True, slots=True)
class StoreTraffic:
    """Counted since the start; hits and misses once for each expert of a layer of a pass."""

    hits: int  # in memory, or on its way because it was foreseen
    misses: int
    loads: int  # with what was foreseen and preloaded
    loaded_bytes: int  # of slots
    evictions: int
    passes: int
    bytes_read: int  # by the reader, for whatever purpose
    foreseen: int  # read before anybody asked
    foreseen_used: int
    foreseen_unused: int
    waited_s: float = 0.0  # for what was needed and not here yet

    @property
    def hit_rate(self) -> float:
        """Of the experts that were needed; 0 before the first."""
        needed = self.hits + self.misses
        return self.hits / needed if needed else 0.0


def slot_bytes(layer: LayerExtents) -> int:
    """Of memory for one expert of this layer: each matrix in blocks of the disk."""
    return sum(room_bytes(extent.size_bytes) for extent in layer.of(0))


def pool_shapes(layers: Sequence[LayerExtents]) -> tuple[PoolShape, ...]:
    """The sizes of slots that these layers need."""
    counts: Counter[int] = Counter()
    for layer in layers:
        counts[slot_bytes(layer)] += layer.num_experts
    return tuple(PoolShape(size_bytes, count) for size_bytes, count in counts.items())


class _Slot:
    """Memory for one expert, and the expert whose bytes are in it or on their way into it."""

    __slots__ = ("arriving", "matrices", "memory")

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.arriving: tuple[Reading, ...] = ()
        self.matrices: Matrices | None = None

    @property
    def is_over(self) -> bool:
        return all(reading.is_over for reading in self.arriving)

    @property
    def has_failed(self) -> bool:
        return any(reading.has_failed for reading in self.arriving)

    def wait(self) -> Matrices:
        """The expert's matrices as soon as they are here. ModelReadError."""
        if self.matrices is None:
            gate, up, down = (reading.wait() for reading in self.arriving)
            self.matrices, self.arriving = (gate, up, down), ()
        return self.matrices

    def give_up(self) -> None:
        """Nothing is written into it any more, and nobody is in it."""
        for reading in self.arriving:
            reading.cancel()
        for reading in self.arriving:
            reading.settle()
        self.arriving, self.matrices = (), None


class ExpertStore:
    """Slots for the experts of some layers, filled from the model's files. Close it, or use it in a `with`."""

    def __init__(
        self,
        layers: Sequence[LayerExtents],
        reader: DirectReader,
        budget_bytes: int | None = None,
        num_slots: int | None = None,
        *,
        lock: bool | LockSystem = False,
    ) -> None:
        """Without a budget or a number, there is room for all. `lock`: keep the slots in RAM, as far as possible.

        OutOfMemoryError where the budget, or what can be locked of it, is less than one expert.
        """
        if not layers:
            raise ValueError("expected layers with routed experts, got none")
        pools = pool_shapes(layers)
        counts = slots_of_number(pools, sum(pool.num_experts for pool in pools) if num_slots is None else num_slots)
        if budget_bytes is not None:
            within = slots_within(pools, budget_bytes)
            if sum(size * count for size, count in counts.items()) > budget_bytes or num_slots is None:
                counts = within
        locking = lock if not isinstance(lock, bool) else OsLocking() if lock else None
        self._memory: SlotMemory | None = allocated(pools, counts, locking)
        self._reader = reader
        self._layers = tuple(layers)
        self._index = {layer.layer: index for index, layer in enumerate(layers)}
        self._sizes = [slot_bytes(layer) for layer in layers]
        self._pools = {size: [_Slot(memory) for memory in slots] for size, slots in self._memory.pools.items()}
        self.cache = ExpertCache(
            max(layer.num_experts for layer in layers),
            [layer.expert_bytes for layer in layers],
            {size: len(slots) for size, slots in self._pools.items()},
            self._sizes,
        )
        self._foreseen: dict[int, list[int]] = {}  # of a layer that has not picked since
        self._on_their_way: list[_Slot] = []  # that were foreseen
        self._num_foreseen = self._num_used = self._num_unused = 0
        self._waited_s = 0.0

    @property
    def layers(self) -> tuple[LayerExtents, ...]:
        """Those it serves; the cache counts them in this order."""
        return self._layers

    @property
    def traffic(self) -> StoreTraffic:
        """What was counted so far."""
        books = self.cache.traffic
        return StoreTraffic(
            books.hits,
            books.misses,
            books.loads,
            books.loaded_bytes,
            books.evictions,
            books.passes,
            self._reader.bytes_read,
            self._num_foreseen,
            self._num_used,
            self._num_unused,
            self._waited_s,
        )

    @property
    def slots_bytes(self) -> int:
        """Memory of all slots, whether experts are in them or not."""
        return 0 if self._memory is None else self._memory.size_bytes

    @property
    def locked_bytes(self) -> int:
        """Of that, what stays in RAM."""
        return 0 if self._memory is None else self._memory.locked_bytes

    @property
    def held_bytes(self) -> int:
        """Of the file, what lies in slots."""
        return self.cache.held_bytes

    @property
    def remark(self) -> str | None:
        """What the user should know of the memory, once."""
        return None if self._memory is None else self._memory.remark

    def rounds(self, layer: int, picked: npt.NDArray[np.int32]) -> Generator[Held, None, None]:
        """The experts that rows picked, (n, k), in rounds: what one holds is given back when the next is asked for.

        The first round that is asked for begins the reads. A round is what is here when it is asked for, and at least
        one expert. ModelReadError where one cannot be read; then all is given back, as when the rounds are closed.
        """
        index = self._index[layer]
        needed = self.cache.pick(index, picked, len(picked))
        self._judge_foresight(index, needed)
        self.forget_failed(index, needed)
        admission = Admission.PASSING if len(picked) > HALF_LIFE_TOKENS else Admission.ALWAYS
        fetch = self.cache.fetch(index, needed, admission, most_loads=0)
        matrices = {} if fetch.left else self._all_here(index, fetch)
        if not matrices:
            yield from _Call(self, index, needed, admission, fetch).rounds()
            return
        try:
            yield Held(needed, matrices)
        finally:
            self.cache.release(fetch)

    def _all_here(self, index: int, fetch: Fetch) -> dict[int, Matrices]:
        """Of every expert; nothing where one is still on its way."""
        slots, here = self._pools[self._sizes[index]], {}
        for expert, place in fetch.hits.items():
            matrices = slots[place].matrices
            if matrices is None:
                return {}
            here[expert] = matrices
        return here

    def foresee(self, layer: int, experts: Sequence[int]) -> None:
        """Begin to read what this layer will probably pick next, into slots that are free or whose experts are colder.

        The likeliest first: no more than a few are on their way at a time.
        """
        index = self._index[layer]
        self._on_their_way = [slot for slot in self._on_their_way if slot.arriving and not slot.is_over]
        for expert in experts:
            if self.cache.slot(index, expert) is not None:
                continue
            if len(self._on_their_way) >= self._most_foreseen(index):
                return
            load = self.cache.expect(index, expert)
            if load is None:
                return
            self._on_their_way.append(self.bring(index, load, is_urgent=False))
            self._foreseen.setdefault(index, []).append(expert)
            self._num_foreseen += 1

    def lacks(self, layer: int, experts: Iterable[int]) -> list[int]:
        """Those of a layer that are in no slot, nor on their way."""
        index = self._index[layer]
        return [expert for expert in experts if self.cache.slot(index, expert) is None]

    def preload(self, most: int | None = None) -> int:
        """Read the hottest experts of a profile (`load_profile` on `cache`) into empty slots; how many there were.

        ModelReadError where one cannot be read.
        """
        loads = self.cache.preload(most)
        for index, load in loads:
            self.bring(index, load)
        for index, load in loads:
            self.arrived(index, load.expert, load.slot)
        return len(loads)

    def close(self) -> None:
        """End what is being read and give the memory up; it lives on as long as somebody holds matrices."""
        for slots in self._pools.values():
            for slot in slots:
                slot.give_up()
        self._pools, self._memory = {}, None

    def __enter__(self) -> "ExpertStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bring(self, index: int, load: Load, *, is_urgent: bool = True) -> _Slot:
        """Begin to read an expert into its slot. `index`: of the layer, in the cache."""
        slot, layer = self._pools[self._sizes[index]][load.slot], self._layers[index]
        slot.give_up()
        readings, first = [], 0
        for extent in layer.of(load.expert):
            room = room_bytes(extent.size_bytes)
            readings.append(self._reader.begin(extent, slot.memory[first : first + room], is_urgent=is_urgent))
            first += room
        slot.arriving = tuple(readings)
        return slot

    def arrived(self, index: int, expert: int, place: int) -> Matrices:
        """An expert's matrices, in memory now. Where they do not come, its slot is empty again: ModelReadError."""
        slot = self._pools[self._sizes[index]][place]
        if slot.matrices is not None:
            return slot.matrices
        begun_s = perf_counter()
        try:
            return slot.wait()
        except ModelReadError:
            slot.give_up()
            self.cache.forget(index, expert)
            raise
        finally:
            self._waited_s += perf_counter() - begun_s

    def is_here(self, index: int, place: int) -> bool:
        """Whether `arrived` takes no time."""
        slot = self._pools[self._sizes[index]][place]
        return slot.matrices is not None or slot.is_over

    def give_up(self, index: int, expert: int) -> None:
        """Whatever was on its way for this expert: it is missing again."""
        place = self.cache.slot(index, expert)
        if place is not None:
            self._pools[self._sizes[index]][place].give_up()
            self.cache.forget(index, expert)

    def forget_failed(self, index: int, experts: Iterable[int]) -> None:
        """What was begun before and did not come is missing, no more: whoever needs it reads it afresh."""
        slots = self._pools[self._sizes[index]]
        for expert in experts:
            place = self.cache.slot(index, expert)
            if place is not None and slots[place].arriving and slots[place].has_failed:
                self.give_up(index, expert)

    def passing_ahead(self, index: int) -> int:
        """How many slots a prompt may use beside those it finds its experts in."""
        return max(1, min(PASSING_AHEAD, self.cache.num_slots(index) // 4))

    def _most_foreseen(self, index: int) -> int:
        return min(FORESEEN_AHEAD, self.cache.num_slots(index) // 4)

    def _judge_foresight(self, index: int, needed: Sequence[int]) -> None:
        """Count what was foreseen for this layer; what was not begun and is not needed is left out."""
        foreseen = self._foreseen.pop(index, None)
        if foreseen is None:
            return
        slots = self._pools[self._sizes[index]]
        for expert in foreseen:
            if expert in needed:
                self._num_used += 1
                continue
            self._num_unused += 1
            place = self.cache.slot(index, expert)
            if place is not None:
                for reading in slots[place].arriving:
                    reading.cancel()
                if slots[place].is_over and slots[place].has_failed:
                    self.give_up(index, expert)


class _Call:
    """One call of `rounds` of which not all is here: who is held, who is on the way, who is still missing."""

    def __init__(
        self, store: ExpertStore, index: int, needed: Sequence[int], admission: Admission, hits: Fetch
    ) -> None:
        self._store, self._cache, self._index = store, store.cache, index
        self._needed, self._admission = needed, admission
        self._ahead = len(needed) if admission is Admission.ALWAYS else store.passing_ahead(index)
        self._held = dict(hits.hits)  # expert -> slot
        self._missing = sorted(hits.left)
        self._begun: set[int] = set()  # on the way since this call, not handed out yet

    def rounds(self) -> Generator[Held, None, None]:
        position = 0
        try:
            while position < len(self._needed):
                held = self._next_round(position)
                yield held
                position += len(held.experts)
                self._release(held.experts)
        except ModelReadError:
            for expert in self._begun:
                self._store.give_up(self._index, expert)
            raise
        finally:
            self._release(tuple(self._held))

    def _next_round(self, position: int) -> Held:
        """The next expert, and those behind it that are here as well."""
        self._begin_reads()
        first = self._needed[position]
        if first not in self._held:
            self._make_room()
        matrices = {first: self._take(first)}
        for expert in self._needed[position + 1 :]:
            if expert not in self._held or not self._store.is_here(self._index, self._held[expert]):
                break
            matrices[expert] = self._take(expert)
        self._begin_reads()
        return Held(tuple(matrices), matrices)

    def _take(self, expert: int) -> Matrices:
        try:
            matrices = self._store.arrived(self._index, expert, self._held[expert])
        except ModelReadError:
            if expert in self._begun:
                raise
            self._release((expert,))  # an earlier call or a guess began it: it is asked for once more
            self._begin(expert)
            matrices = self._store.arrived(self._index, expert, self._held[expert])
        self._begun.discard(expert)
        return matrices

    def _begin_reads(self) -> None:
        while self._missing and len(self._begun) < self._ahead and self._begin(self._missing[0]):
            del self._missing[0]

    def _begin(self, expert: int) -> bool:
        """Give it a slot, unless all are held, and begin to read it into that."""
        fetch = self._cache.again(Fetch(self._index, {}, (), (expert,)), self._admission)
        if fetch.left:
            return False
        self._held[expert] = fetch.slots[expert]
        if fetch.loads:  # else it is still in the slot that `_make_room` took from it
            self._begun.add(expert)
            self._store.bring(self._index, fetch.loads[0])
        return True

    def _make_room(self) -> None:
        """All slots are held by experts whose turn comes later: the last goes, and is read when it is its turn."""
        last = max(self._held.keys() - self._begun, default=None)
        if last is None:
            raise RuntimeError("expected free slots in the store, but an earlier call's rounds are still open")
        self._release((last,))
        self._begin_reads()
        insort(self._missing, last)

    def _release(self, experts: Sequence[int]) -> None:
        self._cache.release(Fetch(self._index, {expert: self._held.pop(expert) for expert in experts}, (), ()))
