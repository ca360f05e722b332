"""Routed experts in host memory, with slots for the hot ones on a card: every layer picks first, then is served.

The weights stay where they lie in the mapped file, or in a store in front of a disk. What is missing on the card is
copied into slots, or computed by the CPU backend from the very same bytes, whichever a short measurement found to be
faster for passes of few rows. Copied experts give the same bits as a model that lies on the card as a whole, whatever
was in the slots before; what the CPU computes is the same up to the order of its sums, so that bits then depend on
which experts lay in slots.

This plan asks the card once a layer what was picked, and cannot be recorded as a graph. Knows no routing and no files.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whitedwarf.errors import BackendError
from whitedwarf.ops.base import ExpertWeights, FloatArray, IntArray, Weight
from whitedwarf.ops.expert_source import ExpertSource, MappedExperts, Matrices
from whitedwarf.ops.torch_ops import memory_told
from whitedwarf.ops.torch_slots import ExpertParts, slot_memory, slots_of_kinds
from whitedwarf.ops.torch_uploads import Uploads
from whitedwarf.ops.twins.products import Block
from whitedwarf.weights.expert_cache import HALF_LIFE_TOKENS, Admission, ExpertCache, Fetch, Traffic
from whitedwarf.weights.placement import Slots
from whitedwarf.weights.tensors import Tensor as FileTensor

Misses = Literal["auto", "copy", "cpu"]
Product = Callable[..., Tensor]  # twins.products.experts, or a kernel with its signature
HOST_ROWS = 8  # passes of more rows have their misses copied: the CPU's time grows with the rows
LATER_LOADS = 4  # of a pass, beside what the CPU computes
_TRIES = 5


class HostBackend(Protocol):
    """What of ops/cpu.py is needed."""

    def weight(self, tensor: FileTensor) -> Weight: ...
    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class HostStack:
    """One of the three stacks of matrices of a layer's experts, left in the file: (E, rows, columns)."""

    tensor: FileTensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape


@dataclass(frozen=True, slots=True)
class Measured:
    """What a miss costs: copied into a slot, or computed by the CPU for one row. None: there is no CPU backend."""

    copy_ms: float
    cpu_ms: float | None

    @property
    def is_cpu_faster(self) -> bool:
        return self.cpu_ms is not None and self.cpu_ms < self.copy_ms


@dataclass(frozen=True, slots=True)
class _Served:
    """One layer: where its experts come from, and the memory of the slots they go to."""

    index: int  # in the cache
    parts: ExpertParts
    slots: Block
    on_cpu: tuple[Weight, Weight, Weight] | None


@dataclass(frozen=True, slots=True)
class _Picks:
    """Which experts each row picked, and their shares; also as numbers here."""

    experts: Tensor  # (n, k) int32
    shares: Tensor  # (n, k)
    on_host: IntArray  # (n, k)

    def among(self, slots: Mapping[int, int]) -> "_Picks":
        """Those that have slots; in the place of others one that has, or none in particular, with a share of 0."""
        is_here = np.isin(self.on_host, list(slots))
        if is_here.all():
            return self
        if len(is_here) == 1 and is_here.any():  # one row: without the others
            columns = torch.from_numpy(np.flatnonzero(is_here[0])).to(self.experts.device)
            return _Picks(self.experts[:, columns], self.shares[:, columns], self.on_host[:, is_here[0]])
        here = torch.from_numpy(is_here).to(self.experts.device)
        filler = min(slots, default=0)
        return _Picks(torch.where(here, self.experts, filler), torch.where(here, self.shares, 0.0), self.on_host)


class HostExperts:
    """The experts of the layers of one card. Give it all their stacks with `take`, then `prepare`, then ask."""

    def __init__(
        self,
        device: torch.device | str,
        slots: Sequence[Slots],
        product: Product,
        cpu: HostBackend | None = None,
        misses: Misses = "auto",
        source: ExpertSource | None = None,
    ) -> None:
        """`source`: where experts come from, by default the mapped file; `cpu` has them from there as well."""
        if misses == "cpu" and cpu is None:
            raise BackendError("the CPU was asked to compute experts, but its native module is not built; run `make`")
        self.device = torch.device(device)
        self.measured: Measured | None = None
        self._loads_left = LATER_LOADS
        self.host_rows = 0  # rows times experts that the CPU computed
        self._product = product
        self._cpu = cpu
        self._misses = misses
        self._source = MappedExperts() if source is None else source
        self._slots_of_size = {slot.expert_bytes: slot.count for slot in slots}
        self._stacks: dict[str, dict[str, FileTensor]] = {}  # layer -> gate, up, down -> where it lies
        self._served: dict[str, _Served] = {}  # by layer
        self._cache: ExpertCache | None = None
        self._uploads: Uploads | None = None

    def take(self, tensor: FileTensor) -> HostStack:
        """One of the stacks of a layer, which stays where it is. The layers are counted in this order."""
        layer, role = name_parts(tensor.name)
        self._stacks.setdefault(layer, {})[role] = tensor
        return HostStack(tensor)

    @property
    def is_prepared(self) -> bool:
        return self._cache is not None

    def prepare(self) -> None:
        """Allocate the slots and measure what misses cost."""
        parts = {layer: ExpertParts(**stacks) for layer, stacks in self._stacks.items()}
        counts = slots_of_kinds(list(parts.values()), self._slots_of_size)
        kinds = list(counts)
        examples = {part.kind: part for part in parts.values()}
        with memory_told(self.device, "the slots for experts"):
            memory = {kind: slot_memory(part, counts[kind], self.device) for kind, part in examples.items()}
        for index, (layer, part) in enumerate(parts.items()):
            self._served[layer] = _Served(index, part, memory[part.kind], self._on_cpu(part))
        self._uploads = Uploads(self.device, max(part.staging_bytes for part in parts.values()))
        self._cache = ExpertCache(
            next(iter(parts.values())).num_experts,
            [part.size_bytes for part in parts.values()],
            {kinds.index(kind): count for kind, count in counts.items()},
            [kinds.index(part.kind) for part in parts.values()],
        )
        self.measured = self._measure()

    @property
    def cache(self) -> ExpertCache:
        """The slots' books."""
        assert self._cache is not None, "prepare() comes first"
        return self._cache

    @property
    def traffic(self) -> Traffic:
        """Hits and misses so far."""
        return Traffic() if self._cache is None else self._cache.traffic

    @property
    def num_slots(self) -> int:
        """On this card, of all sizes."""
        return 0 if self._cache is None else self._cache.num_all_slots

    @property
    def num_held(self) -> int:
        """Experts that lie on this card."""
        return 0 if self._cache is None else self._cache.num_held

    @property
    def computes_misses(self) -> bool:
        """Whether the CPU computes the misses of small passes."""
        if self._misses == "auto":
            return self.measured is not None and self.measured.is_cpu_faster
        return self._misses == "cpu"

    def describe(self) -> str:
        """What was measured, and what follows, in one line."""
        if self.measured is None:
            return "experts that are missing on the card are copied"
        copied = f"copied in {self.measured.copy_ms:.2f} ms"
        if self.measured.cpu_ms is None:
            return f"an expert is {copied}; misses are copied, as there is no CPU backend here"
        how = "computed by the CPU while few rows need them" if self.computes_misses else "copied"
        asked = "" if self._misses == "auto" else " (as asked)"
        computed = f"computed for a row by the CPU in {self.measured.cpu_ms:.2f} ms"
        return f"an expert is {copied} or {computed}: misses are {how}{asked}"

    def preload(self, most: int | None = None) -> int:
        """Bring the hottest experts of a profile into empty slots; how many there were."""
        loads = self.cache.preload(most)
        missing: dict[int, dict[int, int]] = {}  # layer -> expert -> slot
        for layer, load in loads:
            missing.setdefault(layer, {})[load.expert] = load.slot
        try:
            for served in self._served.values():
                self._bring(served, missing.pop(served.index, {}), is_prompt=False)
        finally:
            for layer, slots in missing.items():
                self._forget(layer, slots)
        self._settled()
        return len(loads)

    def experts(self, x: Tensor, picked: Tensor, shares: Tensor, routed: ExpertWeights, shared: Block | None) -> Tensor:
        """Like twins.products.experts: x (n, D), picked (n, k) int32, shares (n, k) -> (n, D)."""
        served = self._served_of(routed)
        picks = _Picks(picked, shares, picked.cpu().numpy())  # the one wait of a layer
        num_rows = len(picks.on_host)
        needed = self.cache.pick(served.index, picks.on_host, num_rows)
        if self.computes_misses and num_rows <= HOST_ROWS:
            return self._partly_on_cpu(served, x, picks, shared, needed)
        admission = Admission.PASSING if num_rows > HALF_LIFE_TOKENS else Admission.ALWAYS
        total: Tensor | None = None
        rounds = self._rounds(served, needed, admission)
        for number, experts in enumerate(rounds, 1):
            fetch = self._fetched(served, experts, admission)
            total = self._on_card(served, x, picks, fetch, shared if number == len(rounds) else None, total)
            self.cache.release(fetch)
        assert total is not None
        return total

    def _served_of(self, routed: ExpertWeights) -> _Served:
        """The layer, with its own clamp."""
        assert isinstance(routed.gate, HostStack)
        served = self._served[name_parts(routed.gate.tensor.name)[0]]
        return replace(served, slots=replace(served.slots, limit=routed.limit))

    def _rounds(self, served: _Served, needed: Sequence[int], admission: Admission) -> list[Sequence[int]]:
        """The needed experts in order, as many at a time as there are slots; a prompt's leave half of those alone."""
        num_slots = self.cache.num_slots(served.index)
        most = max(1, num_slots // 2) if admission is Admission.PASSING else num_slots
        return [needed[first : first + most] for first in range(0, len(needed), most)]

    def _fetched(
        self, served: _Served, experts: Sequence[int], admission: Admission, most_loads: int | None = None
    ) -> Fetch:
        fetch = self.cache.fetch(served.index, experts, admission, most_loads)
        slots = {load.expert: load.slot for load in fetch.loads}
        try:
            self._bring(served, slots, is_prompt=admission is Admission.PASSING)
        except BaseException:
            self.cache.release(fetch)
            raise
        self._settled()
        return fetch

    def _bring(self, served: _Served, slots: Mapping[int, int], *, is_prompt: bool) -> None:
        """Experts into these slots; those that do not come have none."""
        if not slots:
            return
        missing = dict(slots)
        try:
            with closing(self._source.each(served.parts, tuple(slots), is_prompt=is_prompt)) as arriving:
                for expert, matrices in arriving:
                    self._upload(served, matrices, slots[expert])
                    del missing[expert]
        finally:
            self._forget(served.index, missing)

    def _forget(self, layer: int, experts: Iterable[int]) -> None:
        for expert in experts:
            self.cache.forget(layer, expert)

    def _upload(self, served: _Served, matrices: Matrices, slot: int) -> None:
        assert self._uploads is not None
        self._uploads.put(matrices, served.slots, slot)

    def _settled(self) -> None:
        assert self._uploads is not None
        self._uploads.join()

    def _on_card(
        self,
        served: _Served,
        x: Tensor,
        picks: "_Picks",
        fetch: Fetch,
        shared: Block | None,
        total: Tensor | None = None,
    ) -> Tensor:
        """The sum over the picks that have slots, behind `total`; others weigh nothing."""
        places = np.zeros(served.parts.num_experts, np.int32)
        for expert, slot in fetch.slots.items():
            places[expert] = slot
        here = picks.among(fetch.slots)
        slots = torch.from_numpy(places).to(self.device, non_blocking=True)
        more = () if total is None else (total,)
        return self._product(x, here.experts, here.shares, served.slots, shared, slots, *more)

    def _partly_on_cpu(
        self, served: _Served, x: Tensor, picks: "_Picks", shared: Block | None, needed: Sequence[int]
    ) -> Tensor:
        """Hits on the card, meanwhile the rest here; the CPU's sum is added last. Few misses are copied for later."""
        fetch = self._fetched(served, needed, Admission.HOTTER, self._allowance(served))
        self._loads_left -= len(fetch.loads)
        on_host = (x.cpu().numpy(), picks.shares.cpu().numpy()) if fetch.left else None  # before the card is busy
        total = self._on_card(served, x, picks, fetch, shared)
        self.cache.release(fetch)
        if on_host is None:
            return total
        sums = self._computed(served, on_host[0], picks.on_host, on_host[1], np.isin(picks.on_host, fetch.left))
        return total + torch.from_numpy(sums).to(self.device)

    def _allowance(self, served: _Served) -> int:
        """How many experts may be copied for later in this pass: the first layer begins a new one."""
        if served.index == 0:
            self._loads_left = LATER_LOADS
        return self._loads_left

    def _computed(
        self, served: _Served, x: FloatArray, picked: IntArray, shares: FloatArray, on_cpu: npt.NDArray[np.bool_]
    ) -> FloatArray:
        """(n, D): what the CPU adds. Rows with as many experts of theirs here go together."""
        sums, counts = np.zeros(x.shape, np.float32), on_cpu.sum(axis=1)
        self.host_rows += int(counts.sum())
        for count in sorted(set(counts.tolist()) - {0}):
            rows = np.flatnonzero(counts == count)
            here = on_cpu[rows]
            experts = np.ascontiguousarray(picked[rows][here].reshape(len(rows), count), np.int32)
            weights = np.ascontiguousarray(shares[rows][here].reshape(len(rows), count), np.float32)
            sums[rows] = self._ask_cpu(served, np.ascontiguousarray(x[rows]), experts, weights)
        return sums

    def _on_cpu(self, parts: ExpertParts) -> tuple[Weight, Weight, Weight] | None:
        if self._cpu is None:
            return None
        return self._cpu.weight(parts.gate), self._cpu.weight(parts.up), self._cpu.weight(parts.down)

    def _ask_cpu(self, served: _Served, x: FloatArray, experts: IntArray, weights: FloatArray) -> FloatArray:
        assert self._cpu is not None
        assert served.on_cpu is not None
        return self._cpu.experts(x, experts, weights, ExpertWeights(*served.on_cpu, served.slots.limit))

    def _measure(self) -> Measured:
        """The median of a few tries with the experts of one layer, whose bytes were read before."""
        served = next(iter(self._served.values()))
        tries = [number % served.parts.num_experts for number in range(_TRIES)]
        for _, matrices in self._source.each(served.parts, sorted(set(tries)), is_prompt=False):
            for matrix in matrices:
                matrix.data.max()  # from the disk, if it has to
        self._copy_once(served, 0)  # whatever is slow only once
        copies = [_timed_ms(partial(self._copy_once, served, expert)) for expert in tries]
        if self._cpu is None or self._misses == "copy":
            return Measured(median(copies), None)
        row = np.ones((1, served.parts.tensors[0].shape[2]), np.float32)
        share = np.ones((1, 1), np.float32)
        self._compute_once(served, row, share, 0)
        computed = [_timed_ms(partial(self._compute_once, served, row, share, expert)) for expert in tries]
        return Measured(median(copies), median(computed))

    def _copy_once(self, served: _Served, expert: int) -> None:
        for _, matrices in self._source.each(served.parts, (expert,), is_prompt=False):
            self._upload(served, matrices, 0)
        self._settled()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _compute_once(self, served: _Served, row: FloatArray, share: FloatArray, expert: int) -> None:
        self._ask_cpu(served, row, np.array([[expert]], np.int32), share)


def name_parts(name: str) -> tuple[str, str]:
    """blk.3.ffn_gate_exps.weight -> blk.3, gate."""
    layer, _, rest = name.partition(".ffn_")
    return layer, rest.partition("_exps")[0]


def _timed_ms(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000
