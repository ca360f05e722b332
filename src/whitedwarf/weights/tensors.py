"""One view over the weights of a model, wherever its bytes lie.

A `Tensor` is a typed view on mapped bytes; nothing here copies or decodes more than it is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.types import GgmlType


@dataclass(frozen=True, slots=True)
class Tensor:
    """One named tensor: its type, its shape (slowest axis first) and its raw bytes."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]  # numpy order: (rows, columns) or (experts, rows, columns)
    data: np.ndarray  # (size_bytes,) uint8, usually a view on the mapped file

    def floats(self) -> np.ndarray:
        """Decode the whole tensor to float32 of `shape`."""
        return decode(self.data, self.type, self.shape)

    def integers(self) -> np.ndarray:
        """The values of an I32 tensor, in place."""
        return self.data.view(np.int32).reshape(self.shape)


TensorMap = Mapping[str, Tensor]
