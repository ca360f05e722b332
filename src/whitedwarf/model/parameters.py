"""Hands a layer its tensors by their short names, in the backend's own form."""

from dataclasses import dataclass

from whitedwarf.errors import FileFormatError
from whitedwarf.ops.base import FloatArray, HyperHeadWeights, HyperWeights, IntArray, Ops, Weight
from whitedwarf.weights.tensors import Tensor, TensorMap


@dataclass(frozen=True, slots=True)
class Parameters:
    """The tensors below one prefix (`blk.3.`, `mtp.0.` or nothing)."""

    tensors: TensorMap
    ops: Ops
    prefix: str = ""

    def below(self, prefix: str) -> "Parameters":
        return Parameters(self.tensors, self.ops, self.prefix + prefix)

    def matrix(self, name: str) -> Weight:
        return self.ops.weight(self._tensor(name + ".weight"))

    def vector(self, name: str) -> FloatArray:
        """A small float parameter; `name` with its suffix if that is not `.weight`."""
        return self.ops.vector(self._tensor(name if name.endswith(".bias") else name + ".weight"))

    def integers(self, name: str) -> IntArray:
        return self.ops.parameter(self._tensor(name + ".weight").integers())

    def hyper(self, kind: str) -> HyperWeights:
        """The hyper-connection around the `attn` or `ffn` sub-layer, with that sub-layer's norm."""
        mix, base, scale = self.matrix(f"hc_{kind}_fn"), self.vector(f"hc_{kind}_base"), self.vector(f"hc_{kind}_scale")
        return HyperWeights(mix, base, scale, self.vector(f"{kind}_norm"))

    def hyper_head(self, head: str, norm: str) -> HyperHeadWeights:
        mix, base, scale = self.matrix(f"{head}_fn"), self.vector(f"{head}_base"), self.vector(f"{head}_scale")
        return HyperHeadWeights(mix, base, scale, self.vector(norm))

    def _tensor(self, name: str) -> Tensor:
        try:
            return self.tensors[self.prefix + name]
        except KeyError:
            raise FileFormatError(f"tensor {self.prefix + name} is missing: the file is incomplete") from None
