"""One tensor made again and held against the same tensor of a file: byte for byte, and by what the bytes decode to.

Promises bounded memory: both are walked in the pieces of `quantize.py`. Errors are root mean squares over the root mean
square of the source's numbers, so that 0.1 means a tenth of the tensor is noise.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.encoder import Encoder
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.quantize import Piece, Reader, encoded, pieces_of
from whitedwarf.gguf.quantize_plan import QuantizedTensor, QuantizePlan
from whitedwarf.gguf.tensor_source import Bytes, GgufTensor, ModelSource, rows_and_columns
from whitedwarf.gguf.types import GgmlType


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two tensors first differ."""

    byte: int  # of the tensor
    block: int
    expert: int
    row: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found."""

    tensor: str
    type: str
    their_type: str
    blocks: int
    differing_blocks: int
    first: Difference | None
    error: float | None  # None: integers, or nothing but zeros
    their_error: float | None

    @property
    def is_equal(self) -> bool:
        return self.type == self.their_type and not self.differing_blocks


@dataclass(slots=True)
class _Sums:
    """Squares over the pieces so far."""

    source: float = 0.0
    ours: float = 0.0
    theirs: float = 0.0
    differing: int = 0
    first: Difference | None = None

    def error(self, squares: float) -> float | None:
        return float(np.sqrt(squares / self.source)) if self.source > 0 else None


def compare(plan: QuantizePlan, theirs: ModelSource, name: str, encoder: Encoder) -> Comparison:
    """Make `name` again and compare. Raises UsageError for an unknown name, FileFormatError for other shapes."""
    tensor = find_tensor(plan, name)
    other = theirs.tensors.get(tensor.canonical)
    if not isinstance(other, GgufTensor):
        raise UsageError(f"--compare-tensor: {theirs.paths[0]} has no tensor {name!r}; see gguf inspect --tensors")
    if other.shape != tuple(tensor.shape):
        raise FileFormatError(
            f"{theirs.paths[0]}: {name} has shape {list(other.shape)}, expected {list(tensor.shape)}: another model"
        )
    sums, reader = _Sums(), Reader(plan.importances)
    for piece in pieces_of(tensor):
        ours = encoded(piece, reader.read(piece), encoder)
        _take(piece, ours, other, sums)
    matrices, rows, columns = rows_and_columns(tensor.shape)
    blocks = matrices * rows * columns // tensor.type.block_size
    has_errors = tensor.type is not GgmlType.I32
    return Comparison(
        tensor.name,
        tensor.type.name,
        other.base_type.name,
        blocks,
        sums.differing,
        sums.first,
        sums.error(sums.ours) if has_errors else None,
        sums.error(sums.theirs) if has_errors else None,
    )


def find_tensor(plan: QuantizePlan, name: str) -> QuantizedTensor:
    """A tensor of the plan by any spelling of its name. Raises UsageError."""
    found = next((tensor for tensor in plan.tensors if tensor.canonical == canonical_name(name)), None)
    if found is None:
        raise UsageError(f"--compare-tensor: no tensor {name!r} in this model; expected a name like {_example(plan)}")
    return found


def _example(plan: QuantizePlan) -> str:
    return plan.tensors[len(plan.tensors) // 2].name if plan.tensors else "output.weight"


def _take(piece: Piece, ours: Bytes, other: GgufTensor, sums: _Sums) -> None:
    tensor = piece.tensor
    theirs = other.raw(piece.matrix, piece.rows, other.base_type)
    shape = (piece.rows.stop - piece.rows.start, tensor.shape[-1])
    if other.base_type is tensor.type:
        _count_differences(piece, ours, theirs, sums)
    if tensor.type is GgmlType.I32 or other.base_type is GgmlType.I32:
        return
    values = tensor.source.floats(piece.matrix, piece.rows).astype(np.float64)
    sums.source += float(np.square(values).sum())
    sums.ours += float(np.square(decode(ours, tensor.type, shape) - values).sum())
    sums.theirs += float(np.square(decode(theirs, other.base_type, shape) - values).sum())


def _count_differences(piece: Piece, ours: Bytes, theirs: Bytes, sums: _Sums) -> None:
    size = piece.tensor.type.block_bytes
    differing = (ours.reshape(-1, size) != theirs.reshape(-1, size)).any(axis=1)
    sums.differing += int(differing.sum())
    if sums.first is not None or not differing.any():
        return
    _, num_rows, columns = rows_and_columns(piece.tensor.shape)
    row_bytes = piece.tensor.type.row_bytes(columns)
    byte = int(np.flatnonzero(ours != theirs)[0])
    row = piece.rows.start + byte // row_bytes
    place = (piece.matrix * num_rows + piece.rows.start) * row_bytes + byte
    sums.first = Difference(place, place // size, piece.matrix, row)
