"""What the values of each tensor look like: extremes, mean, root mean square, zeros, and what is no number.

Promises: memory is a few pieces for each thread, whatever the size of the tensor, and the result does not depend on
the number of threads. Extremes, mean and root mean square are those of the finite values. Judges nothing.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from types import TracebackType

import numpy as np

from whitedwarf.gguf.codecs import PIECE_ELEMENTS, decode
from whitedwarf.gguf.header import TensorInfo
from whitedwarf.gguf.types import GgmlType

TITLES = ("tensor", "type", "shape", "min", "max", "mean", "rms", "zeros", "NaN", "inf")
_LEFT_COLUMNS = 3  # texts; numbers stand on the right


@dataclass(frozen=True, slots=True)
class Sums:
    """What pieces of a tensor add up to."""

    num_values: int = 0
    num_zeros: int = 0
    num_nan: int = 0
    num_infinite: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    squares: float = 0.0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.num_values + other.num_values,
            self.num_zeros + other.num_zeros,
            self.num_nan + other.num_nan,
            self.num_infinite + other.num_infinite,
            min(self.low, other.low),
            max(self.high, other.high),
            self.total + other.total,
            self.squares + other.squares,
        )


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """One tensor; None where it has no finite value."""

    name: str
    type: str
    shape: tuple[int, ...]
    min: float | None
    max: float | None
    mean: float | None
    rms: float | None
    zero_share: float
    num_nan: int
    num_infinite: int


class StatisticsWatcher:
    """Watches a walk over a model (`verify`); a context manager, for its threads."""

    def __init__(self, num_threads: int = 1) -> None:
        self._pool = ThreadPoolExecutor(num_threads)
        self._seen: dict[str, tuple[TensorInfo, Sums]] = {}

    def look_at(self, info: TensorInfo, piece: np.ndarray) -> None:
        """The next bytes of a tensor, whole blocks."""
        step = PIECE_ELEMENTS // info.type.block_size * info.type.block_bytes
        parts = [piece[start : start + step] for start in range(0, len(piece), step)]
        found = self._pool.map(lambda part: sums_of(part, info.type), parts)
        _, before = self._seen.get(info.name, (info, Sums()))
        self._seen[info.name] = info, reduce(Sums.__add__, found, before)

    def results(self) -> list[TensorStatistics]:
        """Of all tensors seen so far."""
        return [_statistics(info, sums) for info, sums in self._seen.values()]

    def __enter__(self) -> "StatisticsWatcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def sums_of(data: np.ndarray, type_: GgmlType) -> Sums:
    """Of a (bytes,) uint8 piece of whole blocks."""
    values = decode(data, type_, (len(data) // type_.block_bytes, type_.block_size)).reshape(-1)
    with np.errstate(all="ignore"):  # of values that are no numbers; they are counted
        low, high = float(values.min()), float(values.max())
        if math.isfinite(low) and math.isfinite(high):  # a NaN anywhere would be both
            return _sums_of_finite(values, low, high)
        finite = values[np.isfinite(values)]
        num_nan = int(np.count_nonzero(np.isnan(values)))
        others = Sums(len(values) - len(finite), 0, num_nan, len(values) - len(finite) - num_nan)
        return others + (_sums_of_finite(finite, float(finite.min()), float(finite.max())) if len(finite) else Sums())


def _sums_of_finite(values: np.ndarray, low: float, high: float) -> Sums:
    wide = values.astype(np.float64)
    squares = float(np.einsum("i,i->", wide, wide))  # not `dot`: BLAS has threads of its own, and they get in our way
    return Sums(len(values), int(np.count_nonzero(values == 0)), 0, 0, low, high, float(wide.sum()), squares)


def _statistics(info: TensorInfo, sums: Sums) -> TensorStatistics:
    num_finite = sums.num_values - sums.num_nan - sums.num_infinite
    return TensorStatistics(
        name=info.name,
        type=info.type.name,
        shape=info.shape,
        min=sums.low if num_finite else None,
        max=sums.high if num_finite else None,
        mean=sums.total / num_finite if num_finite else None,
        rms=math.sqrt(sums.squares / num_finite) if num_finite else None,
        zero_share=sums.num_zeros / max(sums.num_values, 1),
        num_nan=sums.num_nan,
        num_infinite=sums.num_infinite,
    )


def table(rows: Sequence[TensorStatistics]) -> list[str]:
    """Lines for people: a title and a line for each tensor."""
    cells = [TITLES, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(TITLES))]
    return ["  ".join(map(_padded, row, widths, range(len(row)))).rstrip() for row in cells]


def _cells(row: TensorStatistics) -> tuple[str, ...]:
    numbers = ("-" if number is None else f"{number:.4g}" for number in (row.min, row.max, row.mean, row.rms))
    shape = "x".join(map(str, row.shape))
    return (row.name, row.type, shape, *numbers, f"{row.zero_share:.2%}", str(row.num_nan), str(row.num_infinite))


def _padded(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column < _LEFT_COLUMNS else cell.rjust(width)
