"""Looking at every byte of a model whose structure is sound: are its numbers numbers?

Promises: memory stays bounded whatever the size of the file (it is read in pieces, not through the mapping, so that a
failing disk is a finding and not a crash), and every tensor is looked at. Checks that floats and block scales are
finite and that the expert ids of hash layers exist; whoever else wants to see the bytes gets them in the same walk.
Does not know whether the values are the right ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from whitedwarf.gguf.reader import GgufFile, TensorInfo
from whitedwarf.gguf.types import GgmlType

PIECE_BYTES = 8 << 20
EXPERT_TABLE = "ffn_gate_tid2eid"
F16_EXPONENT = 0x7C00  # all ones: infinite or not a number
BF16_EXPONENT = 0x7F80
F32_EXPONENT = 0x7F80_0000
MXFP4_LARGEST_SCALE = 252  # 6 x 2^(252 - 127) is the last that float32 holds; 255 means NaN
# Where in a block its f16 scales lie (spec: model.md 5.1). All else in a block is integers: it is finite if they are.
SCALE_OFFSETS: dict[GgmlType, tuple[int, ...]] = {
    GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82),
    GgmlType.Q3_K: (108,),
    GgmlType.Q4_K: (0, 2),
    GgmlType.Q5_K: (0, 2),
    GgmlType.Q6_K: (208,),
    GgmlType.IQ2_XXS: (0,),
}
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to tell about a file: an `error` makes the model unfit, a `note` does not."""

    severity: Literal["error", "note"]
    subject: str  # the tensor or the file
    text: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.text}"


class Watcher(Protocol):
    """Sees every tensor of a model as pieces of whole blocks, in order; a tensor that cannot be read ends early."""

    def look_at(self, info: TensorInfo, piece: np.ndarray) -> None:
        """The next (bytes,) uint8 of a tensor; they are overwritten after the call."""


def verify(model: GgufFile, progress: Progress | None = None, watchers: Sequence[Watcher] = ()) -> list[Finding]:
    """Check all tensor data; `progress(done_bytes, total_bytes)` is called after every piece."""
    findings = list(_unused_space(model))
    total_bytes = sum(info.size_bytes for info in model.tensors.values())
    done_bytes = 0
    for info in model.tensors.values():
        checker = _Checker(info, _expert_count(model))
        try:
            for piece in _pieces(model.paths[info.shard], info):
                checker.look_at(piece)
                for watcher in watchers:
                    watcher.look_at(info, piece)
                done_bytes += len(piece)
                if progress is not None:
                    progress(done_bytes, total_bytes)
        except OSError as error:
            findings.append(Finding("error", info.name, f"cannot be read ({error}); the disk or the file is damaged"))
        findings += checker.findings()
    return findings


def bad_blocks(info: TensorInfo, piece: np.ndarray, num_experts: int | None = None) -> np.ndarray:
    """Which blocks (elements, for plain types) of a (bytes,) uint8 piece are unfit: a (blocks,) bool array."""
    if info.type is GgmlType.I32:
        if num_experts is None or EXPERT_TABLE not in info.name:
            return np.zeros(len(piece) // info.type.block_bytes, np.bool_)
        ids = piece.view("<i4")
        return np.asarray((ids < 0) | (ids >= num_experts))
    if info.type is GgmlType.F32:
        return np.asarray(piece.view("<u4") & F32_EXPONENT == F32_EXPONENT)
    if info.type in (GgmlType.F16, GgmlType.BF16):
        exponent = F16_EXPONENT if info.type is GgmlType.F16 else BF16_EXPONENT
        return np.asarray(piece.view("<u2") & exponent == exponent)
    blocks = piece.reshape(-1, info.type.block_bytes)
    if info.type is GgmlType.MXFP4:
        return np.asarray(blocks[:, 0] > MXFP4_LARGEST_SCALE)
    # The high byte of a little-endian f16 holds its whole exponent.
    high = blocks[:, [offset + 1 for offset in SCALE_OFFSETS[info.type]]]
    return np.asarray((high & (F16_EXPONENT >> 8) == F16_EXPONENT >> 8).any(axis=1))


class _Checker:
    """Counts what is wrong with one tensor, piece by piece."""

    def __init__(self, info: TensorInfo, num_experts: int | None) -> None:
        self._info = info
        self._num_experts = num_experts
        self._num_seen = 0
        self._num_bad = 0
        self._first_bad = -1

    def look_at(self, piece: np.ndarray) -> None:
        bad = np.flatnonzero(bad_blocks(self._info, piece, self._num_experts))
        if len(bad) and self._first_bad < 0:
            self._first_bad = self._num_seen + int(bad[0])
        self._num_bad += len(bad)
        self._num_seen += len(piece) // self._info.type.block_bytes

    def findings(self) -> Iterator[Finding]:
        info = self._info
        if info.type is GgmlType.I32 and EXPERT_TABLE in info.name and self._num_experts is None:
            yield Finding("note", info.name, "its expert ids were not checked: the metadata has no expert_count")
        if not self._num_bad:
            return
        things = "values" if info.type.block_size == 1 else "blocks"
        fault = f"name no expert from 0 to {(self._num_experts or 0) - 1}"
        if info.type is not GgmlType.I32:
            fault = "are NaN or infinite" if things == "values" else "have a scale that is NaN or infinite"
        where = f"the first is number {self._first_bad}; the file is corrupt or was badly converted"
        text = f"{self._num_bad} of {self._num_seen} {info.type.name} {things} {fault}; {where}"
        yield Finding("error", info.name, text)


def _pieces(path: Path, info: TensorInfo) -> Iterator[np.ndarray]:
    """The tensor's bytes in whole blocks; each piece is valid until the next. Raises OSError."""
    block_bytes = info.type.block_bytes
    piece_bytes = min(info.size_bytes, PIECE_BYTES // block_bytes * block_bytes)
    buffer = np.empty(piece_bytes, np.uint8)
    with path.open("rb", buffering=0) as file:
        file.seek(info.offset_bytes)
        for start in range(0, info.size_bytes, piece_bytes):
            piece = buffer[: min(piece_bytes, info.size_bytes - start)]
            _fill(file, piece.data)
            yield piece


def _fill(file: FileIO, room: memoryview) -> None:
    while len(room):
        count = file.readinto(room)
        if not count:
            raise OSError("the file became shorter while it was read")
        room = room[count:]


def _expert_count(model: GgufFile) -> int | None:
    value = model.metadata.get(f"{model.metadata.get('general.architecture')}.expert_count")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unused_space(model: GgufFile) -> Iterator[Finding]:
    """Bytes behind the last tensor of a file: harmless, but a sign of a file that was put together strangely."""
    for shard, path in enumerate(model.paths):
        ends = [info.offset_bytes + info.size_bytes for info in model.tensors.values() if info.shard == shard]
        unused = model.shard_bytes[shard] - max(ends, default=model.shard_bytes[shard])
        if unused > model.alignment:
            yield Finding("note", path.name, f"{unused} bytes follow the last tensor; they are not used")
