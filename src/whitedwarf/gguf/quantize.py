"""Quantising a model: its tensors piece by piece, read, encoded on all cores and written in order.

Promises: the bytes depend on source, rules and importances only, not on threads, pieces or interruptions; memory holds
a few pieces of rows; what was done is kept when the work ends early (`part_model.py`). Knows no command line.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.encoder import Encoder
from whitedwarf.gguf.part_model import PartModel
from whitedwarf.gguf.quantize_plan import NamedImportances, QuantizedTensor, QuantizePlan, weights_of
from whitedwarf.gguf.tensor_source import Bytes, Floats, rows_and_columns

PIECE_ELEMENTS = 1 << 21  # eight megabytes of float32
ROW_STEP = 128  # a source's blocks of rows are never cut

Progress = Callable[[str, int], None]  # tensor, bytes done


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one matrix of a tensor."""

    tensor: QuantizedTensor
    matrix: int
    rows: slice

    @property
    def size_bytes(self) -> int:
        num_rows: int = self.rows.stop - self.rows.start
        return num_rows * self.tensor.type.row_bytes(self.tensor.shape[-1])


def pieces_of(tensor: QuantizedTensor) -> Iterator[Piece]:
    """All rows of a tensor in the order of the file."""
    for matrix in range(rows_and_columns(tensor.shape)[0]):
        for rows in _row_slices(tensor):
            yield Piece(tensor, matrix, rows)


def _row_slices(tensor: QuantizedTensor) -> Iterator[slice]:
    _, num_rows, columns = rows_and_columns(tensor.shape)
    step = max(PIECE_ELEMENTS // columns // ROW_STEP, 1) * ROW_STEP
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def quantize(plan: QuantizePlan, part: PartModel, encoder: Encoder, on_progress: Progress | None = None) -> None:
    """Carry out what `part` still lacks; it is complete afterwards, and the caller publishes it.

    Raises FileFormatError for numbers that cannot be written and sources that cannot be read, WhitedwarfError when the
    disk does not take it. `part` keeps what is done whatever ends the work.
    """
    with closing(_loaded(plan, part)) as loaded:
        for piece, content in loaded:
            part.write(encoded(piece, content, encoder).data)
            if on_progress is not None:
                on_progress(piece.tensor.name, part.done_bytes)


@dataclass(frozen=True, slots=True)
class Content:
    """What was read for a piece: bytes to copy, or numbers and how much their columns matter."""

    raw: Bytes | None = None
    values: Floats | None = None
    weights: Floats | None = None


class Reader:
    """Reads pieces in order, and the importances of their matrix when it changes."""

    def __init__(self, importances: NamedImportances | None) -> None:
        self._importances = importances
        self._matrix: tuple[str, int] | None = None
        self._weights: Floats | None = None

    def read(self, piece: Piece) -> Content:
        """The content of a piece."""
        tensor = piece.tensor
        if tensor.weighing == "copy":
            return Content(raw=tensor.source.raw(piece.matrix, piece.rows, tensor.type))
        if self._matrix != (tensor.name, piece.matrix):
            self._weights = self._of_matrix(tensor, piece.matrix)
            self._matrix = (tensor.name, piece.matrix)
        return Content(values=tensor.source.floats(piece.matrix, piece.rows), weights=self._weights)

    def _of_matrix(self, tensor: QuantizedTensor, matrix: int) -> Floats | None:
        if tensor.weighing == "energy":
            return matrix_energy(tensor, matrix)
        if tensor.weighing == "imatrix" and self._importances is not None:
            return weights_of(self._importances.matrix, tensor.canonical, tensor.shape, matrix)
        return None


def matrix_energy(tensor: QuantizedTensor, matrix: int) -> Floats:
    """Sum of squares of each column over all rows of a matrix, in the order of the rows.

    Raises FileFormatError for numbers that are not finite, or so large that no type which needs this can hold them.
    """
    total = np.zeros((1, tensor.shape[-1]), np.float32)
    for rows in _row_slices(tensor):
        with np.errstate(over="ignore"):
            squares = np.square(tensor.source.floats(matrix, rows))
            total = np.add.reduce(np.concatenate([total, squares]), axis=0, keepdims=True)
    energy: Floats = total[0]
    if not np.isfinite(energy).all():
        raise _impossible(tensor, matrix, "expected finite numbers within float16's ±65504, got inf, nan or far more")
    return energy


def encoded(piece: Piece, content: Content, encoder: Encoder) -> Bytes:
    """The bytes of a piece. Raises FileFormatError."""
    tensor = piece.tensor
    if content.raw is not None:
        return content.raw
    assert content.values is not None
    try:
        return encoder.encode(content.values, tensor.type, content.weights)
    except ValueError as error:
        raise _impossible(tensor, piece.matrix, str(error)) from error


def _impossible(tensor: QuantizedTensor, matrix: int, reason: str) -> FileFormatError:
    where = f" (expert {matrix})" if len(tensor.shape) > 2 else ""
    return FileFormatError(f"{tensor.name}{where} cannot be written as {tensor.type.name}: {reason}")


def _loaded(plan: QuantizePlan, part: PartModel) -> Generator[tuple[Piece, Content]]:
    """Pieces that are still missing with their content, the next one being read while this one is worked on."""
    reader = Reader(plan.importances)
    missing = part.missing(piece for tensor in plan.tensors for piece in pieces_of(tensor))
    with ThreadPoolExecutor(1, "read") as pool:
        waiting: tuple[Piece, Future[Content]] | None = None
        for piece in missing:
            coming = pool.submit(reader.read, piece)
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            waiting = (piece, coming)
        if waiting is not None:
            yield waiting[0], waiting[1].result()
