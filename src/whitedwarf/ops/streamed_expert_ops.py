"""The native backend for models larger than memory: routed experts come from a store, in rounds; all else is resident.

Promises the bits of the same backend over a mapped file, whatever lies in the store's slots and however many there are.
What is resident was read into memory of its own, so that nothing of it can be paged out to the file or be gone with it;
of the embedding, rows are read as they are needed. What cannot be read is a ModelReadError, before anything is computed
with it; the next pass works again if the disk does.

Blocks for drafting (`mtp.`), and single experts that calibration asks for, stay in the mapped file.
"""

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import cast

import numpy as np

from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.ops.base import A, ExpertWeights, FloatArray, IntArray, RouterWeights, Weight
from whitedwarf.ops.cpu import CpuOps, ScatteredWeight
from whitedwarf.ops.foresight import Clock, Foresight
from whitedwarf.ops.streamed_table import StreamedTable
from whitedwarf.weights.direct_reader import DirectReader
from whitedwarf.weights.expert_extents import Extent, tensor_extent
from whitedwarf.weights.expert_store import ExpertStore, Held
from whitedwarf.weights.tensors import Tensor

_EXPERTS = re.compile(r"(?:blk|mtp)\.[0-9]+\.ffn_(?:gate|up|down)_exps\.weight")
_OF_LAYER = re.compile(r"blk\.([0-9]+)\.")
_ROUTER = "ffn_gate_inp.weight"
_EMBEDDING = "token_embd.weight"


class StreamedExpertOps(CpuOps):
    """`store` has the experts of the layers `blk.N`, `reader` reads the same files as `gguf` maps."""

    def __init__(
        self,
        store: ExpertStore,
        reader: DirectReader,
        gguf: GgufFile,
        threads: int = 0,
        quality: bool = False,
        level: str = "auto",
    ) -> None:
        super().__init__(threads, quality, level)
        self.store = store
        self.foresight = Foresight(store, super().route, [extents.layer for extents in store.layers])
        self._reader = reader
        self._extents: Mapping[str, Extent] = {
            canonical_name(name): tensor_extent(info) for name, info in gguf.tensors.items()
        }
        self._layer_of: dict[int, int] = {}  # id of a layer's gate matrix, or of its router -> layer
        self._held: list[Weight] = []  # so that their ids stay their own
        self._clock = Clock()
        self._ids: IntArray = np.empty(0, np.int32)  # of the rows that were routed last

    def weight(self, tensor: Tensor) -> Weight:
        """ModelReadError where it cannot be read."""
        if _EXPERTS.fullmatch(tensor.name):
            return self._expert_weight(tensor)
        if tensor.name == _EMBEDDING and self._is_whole(tensor):
            return StreamedTable(tensor.type, tensor.shape, self._extents[tensor.name], self._reader)
        weight = super().weight(self._resident(tensor))
        if tensor.name.endswith(_ROUTER):
            self._remember(weight, tensor.name)
        return weight

    def vector(self, tensor: Tensor) -> FloatArray:
        return super().vector(self._resident(tensor))

    def parameter(self, values: A) -> A:
        return cast(A, np.array(values))  # not in the mapped file, whatever it was

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        if not isinstance(table, StreamedTable):
            return super().embed(table, ids)
        self.foresight.begin(ids)
        rows = table.rows(ids)
        shape = len(ids), table.shape[1]
        few = super().weight(Tensor(_EMBEDDING, table.type, shape, rows.reshape(-1)))
        return super().embed(few, np.arange(len(ids), dtype=np.int32))

    def route(self, x: FloatArray, router: RouterWeights, ids: IntArray) -> tuple[IntArray, FloatArray]:
        layer = self._layer_of.get(id(router.gate))
        if layer is not None:
            self.foresight.learn(layer, router)
        self._ids = ids
        return super().route(x, router, ids)

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        if not isinstance(routed.gate, ScatteredWeight):
            return super().experts(x, experts, weights, routed, shared)
        layer = self._layer_of[id(routed.gate)]
        missing = set(experts.reshape(-1).tolist())
        self.foresight.judge(layer, missing, len(x))
        sums, clock = self.no_sums(x), self._clock
        clock.working(is_new=layer == self.foresight.layers[0])
        with closing(self.store.rounds(layer, experts)) as rounds:
            for number, held in enumerate(rounds):
                clock.waiting()
                if not number:  # behind what this layer itself has to wait for
                    self.foresight.look_ahead(layer, x, self._ids)
                _place(routed, held)
                is_all = len(held.experts) == len(missing) and not number
                missing.difference_update(held.experts)
                picked = experts if is_all else _among(experts, held.experts, routed.gate.shape[0])
                self.add_experts(sums, x, picked, weights, routed, None if missing else shared)
                clock.working()
        self.foresight.spent(*clock.read())
        return sums.values

    def _expert_weight(self, tensor: Tensor) -> Weight:
        """A whole stack of the main model's is scattered, anything else stays where it is."""
        if not tensor.name.startswith("blk.") or not self._is_whole(tensor):
            return super().weight(tensor)
        weight = self.scattered(tensor)
        self._remember(weight, tensor.name)
        return weight

    def _remember(self, weight: Weight, name: str) -> None:
        found = _OF_LAYER.match(name)
        if found is not None:
            self._held.append(weight)
            self._layer_of[id(weight)] = int(found[1])

    def _is_whole(self, tensor: Tensor) -> bool:
        """Whether it is the file's tensor of this name, not a part of it nor somebody else's."""
        extent = self._extents.get(tensor.name)
        return extent is not None and extent.size_bytes == tensor.data.nbytes

    def _resident(self, tensor: Tensor) -> Tensor:
        """The same in memory of its own."""
        if tensor.name.startswith("mtp.") or not self._is_whole(tensor):
            return tensor
        return replace(tensor, data=self._reader.read(self._extents[tensor.name]))


def _place(routed: ExpertWeights, held: Held) -> None:
    gate, up, down = routed.gate, routed.up, routed.down
    assert isinstance(gate, ScatteredWeight)
    assert isinstance(up, ScatteredWeight)
    assert isinstance(down, ScatteredWeight)
    for expert in held.experts:
        of_gate, of_up, of_down = held.matrices[expert]
        gate.place(expert, of_gate)
        up.place(expert, of_up)
        down.place(expert, of_down)


def _among(experts: IntArray, held: tuple[int, ...], num_experts: int) -> IntArray:
    """Picks of held experts; -1 in the place of others."""
    own = np.full(num_experts, -1, np.int32)
    own[list(held)] = held
    return own[experts]
