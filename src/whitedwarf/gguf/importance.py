"""What an importance matrix says: for each column of a weight, the mean square of what the column is multiplied with.

Promises: weights that come back are finite, not negative, of the asked size, and independent of the file's format.
Knows no file formats (`imatrix.py`) and no quantisers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError, WhitedwarfError
from whitedwarf.gguf.names import EXPERT_PLACE, canonical_name, canonical_to_release

FloatArray: TypeAlias = npt.NDArray[np.float32]
Sums: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]

GROUPED = "attn_output_a.weight"  # groups of rows with inputs of their own: llama.cpp has one group behind the other
NEVER_SEEN = 1.0  # the mean square of an expert without a single row: all of its columns count alike


def as_float32(values: Sums) -> FloatArray:
    """A new array. Raises WhitedwarfError for values that float32 cannot hold."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise WhitedwarfError("the sums of squares of some tensor are NaN, infinite or beyond 3.4e38")
    return rounded


@dataclass(frozen=True, slots=True)
class ImatrixEntry:
    """Sums over the rows that a tensor's matrices (experts) were multiplied with, and how many rows each one saw."""

    sums: Sums  # (matrices, columns) of squares
    counts: npt.NDArray[np.int64]  # (matrices,)

    @classmethod
    def of_means(cls, means: FloatArray) -> "ImatrixEntry":
        """Where nothing but means (n,) is known."""
        return cls(means.reshape(1, -1), np.ones(1, np.int64))

    def means(self) -> FloatArray:
        """Means of squares, (matrices, columns) float32; a matrix that saw nothing has all ones."""
        is_seen = self.counts > 0
        divisors = np.where(is_seen, self.counts, 1)[:, None]
        means = as_float32(self.sums.astype(np.float64) / divisors)
        means[~is_seen] = NEVER_SEEN
        return means

    def row(self, index: int, columns: int) -> FloatArray:
        """Means of one matrix of several, (columns,), also where the file has all of them in one row."""
        if len(self.counts) > 1:
            return ImatrixEntry(self.sums[index : index + 1], self.counts[index : index + 1]).means().reshape(columns)
        flat = self.sums.reshape(-1)[index * columns : (index + 1) * columns]
        return ImatrixEntry(flat.reshape(1, -1), self.counts).means().reshape(columns)


@dataclass(frozen=True, slots=True)
class Imatrix:
    """All entries of a file by tensor name, in its order, and what it says about where they come from."""

    entries: Mapping[str, ImatrixEntry]
    dataset: str = ""
    chunks: int = 0
    chunk_size: int = 0  # tokens; 0 where it is not known
    source: str = "imatrix"  # for messages
    _canonical: Mapping[str, ImatrixEntry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_canonical = {canonical_name(name): entry for name, entry in self.entries.items()}
        object.__setattr__(self, "_canonical", by_canonical)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.entries)

    def weights(self, tensor: str, columns: int, expert: int | None = None, experts: int = 1) -> FloatArray | None:
        """Means of squares for the columns of a tensor, or of one expert of `experts`: (columns,), or None if missing.

        `tensor` is a GGUF name; entries under DeepSeek's own names are found, too (model.md 8.5). Raises
        FileFormatError for an entry of another size.
        """
        if expert is not None and not 0 <= expert < experts:
            raise ValueError(f"expert {expert} of {experts}")
        for name in _names_of_one(tensor, expert):
            if (entry := self._entry(name)) is not None:
                return self._exact(name, entry, columns)
        for name in _names_of_all(tensor):
            if (entry := self._entry(name)) is not None:
                return self._sliced(name, entry, columns, expert, experts)
        return None

    def _entry(self, name: str) -> ImatrixEntry | None:
        return self.entries.get(name) or self._canonical.get(name)

    def _exact(self, name: str, entry: ImatrixEntry, columns: int) -> FloatArray:
        if entry.sums.size != columns:
            raise self._wrong_size(name, entry, f"{columns}, the columns of this tensor")
        return entry.means().reshape(columns)

    def _sliced(self, name: str, entry: ImatrixEntry, columns: int, expert: int | None, experts: int) -> FloatArray:
        if expert is None and name.endswith(GROUPED) and len(entry.counts) == 1 and not entry.sums.size % columns:
            return as_float32(entry.means().reshape(-1, columns).mean(axis=0, dtype=np.float64))
        if expert is None or entry.sums.size == columns:
            return self._exact(name, entry, columns)
        if entry.sums.size != columns * experts or len(entry.counts) not in (1, experts):
            raise self._wrong_size(name, entry, f"{columns} or {columns} x {experts} experts")
        return entry.row(expert, columns)

    def _wrong_size(self, name: str, entry: ImatrixEntry, expected: str) -> FileFormatError:
        shape = " x ".join(map(str, reversed(entry.sums.shape)))
        return FileFormatError(
            f"{self.source}: entry {name!r}: found {shape} values; expected {expected}. "
            "It was made for another model: collect one with this model (whitedwarf gguf imatrix)."
        )


def _names_of_one(tensor: str, expert: int | None) -> Iterator[str]:
    """Names of entries for exactly this expert."""
    if expert is None:
        return
    for name in (tensor, canonical_to_release(tensor)):
        if name is not None:
            own = name.replace(EXPERT_PLACE, str(expert))
            yield from (f"{own}.expert.{expert}", f"{own}.expert_{expert}")
            if own != name:
                yield own


def _names_of_all(tensor: str) -> Iterator[str]:
    """Names of entries for the whole tensor."""
    yield tensor
    release = canonical_to_release(tensor)
    if release is not None and EXPERT_PLACE not in release:
        yield release
