"""The numbers of one tensor of a release checkpoint, read in row pieces (model.md 6).

Promises exact values: scales are powers of two (or floats as stored), applied in float32. It knows four encodings:
plain floats, FP8 with a scale per 128 x 128 block, packed FP4 with a scale per 32 columns, and integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

import numpy as np
from numpy.typing import NDArray

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf import codecs_plain
from whitedwarf.gguf.float8 import E2M1, E4M3, E8M0, NAN_SCALE, repack_as_mxfp4, unpack_fp4
from whitedwarf.gguf.safetensors_source import SafetensorsSource, SourceTensor
from whitedwarf.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

FP8_BLOCK = 128  # rows and columns under one scale
FP4_BLOCK = 32  # columns under one scale
PIECE_ELEMENTS = 1 << 19

PLAIN_TYPES = {"F32": GgmlType.F32, "F16": GgmlType.F16, "BF16": GgmlType.BF16}
_PLAIN_DECODERS = {
    "F32": codecs_plain.decode_f32,
    "F16": codecs_plain.decode_f16,
    "BF16": codecs_plain.decode_bf16,
}


class Encoding(StrEnum):
    """How the numbers of a source tensor are written."""

    PLAIN = "plain floats"
    FP8 = "FP8 with block scales"
    FP4 = "packed FP4 with group scales"
    INTEGERS = "integers"


@dataclass(frozen=True, slots=True)
class SourcePart:
    """One weight of the checkpoint with its scale, and the shape of its numbers."""

    weight: SourceTensor
    scale: SourceTensor | None
    encoding: Encoding

    @property
    def shape(self) -> tuple[int, ...]:
        stored = self.weight.shape
        return (*stored[:-1], stored[-1] * 2) if self.encoding is Encoding.FP4 else stored

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1


def recognise(weight: SourceTensor, scale: SourceTensor | None) -> SourcePart | str:
    """The part these two make, or what is wrong with them."""
    if scale is None:
        if weight.dtype in PLAIN_TYPES:
            return SourcePart(weight, None, Encoding.PLAIN)
        if weight.dtype in ("I64", "I32"):
            return SourcePart(weight, None, Encoding.INTEGERS)
        return f"{weight.name} is {weight.dtype} and has no scale"
    if weight.dtype == "F8_E4M3":
        return _scaled(weight, scale, Encoding.FP8, tuple(ceil(size / FP8_BLOCK) for size in weight.shape))
    if weight.dtype in ("I8", "U8"):
        rows_then_groups = (*weight.shape[:-1], weight.shape[-1] * 2 // FP4_BLOCK) if weight.shape else ()
        return _scaled(weight, scale, Encoding.FP4, rows_then_groups)
    return f"{weight.name} is {weight.dtype} but has a scale, {scale.name}"


def _scaled(
    weight: SourceTensor, scale: SourceTensor, encoding: Encoding, scale_shape: tuple[int, ...]
) -> SourcePart | str:
    is_power = scale.dtype in ("F8_E8M0", "U8")
    if not is_power and (encoding is Encoding.FP4 or scale.dtype not in PLAIN_TYPES):
        return f"{scale.name} is {scale.dtype}, expected F8_E8M0"
    if len(weight.shape) != 2 or scale.shape != scale_shape:
        return f"{scale.name} has shape {list(scale.shape)}, expected {list(scale_shape)} for {list(weight.shape)}"
    part = SourcePart(weight, scale, encoding)
    if encoding is Encoding.FP4 and part.columns % FP4_BLOCK:
        return f"{weight.name} has {part.columns} columns, expected a multiple of {FP4_BLOCK}"
    return part


def row_pieces(part: SourcePart) -> Iterator[slice]:
    """The rows in pieces of whole FP8 blocks, each small beside the tensor; a vector is one row."""
    num_rows = part.shape[0] if len(part.shape) > 1 else 1
    step = max(PIECE_ELEMENTS // max(part.columns, 1) // FP8_BLOCK, 1) * FP8_BLOCK
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def read_bytes(source: SafetensorsSource, part: SourcePart, rows: slice) -> Bytes:
    """The stored bytes of some rows."""
    return _rows_of(source, part.weight, len(part.shape) > 1, rows).reshape(-1)


def read_floats(source: SafetensorsSource, part: SourcePart, rows: slice) -> Floats:
    """The numbers of some rows, (rows, columns) float32; `rows` must be one of `row_pieces`."""
    stored = _rows_of(source, part.weight, len(part.shape) > 1, rows)
    if part.encoding is Encoding.PLAIN:
        return _PLAIN_DECODERS[part.weight.dtype](stored)
    assert part.scale is not None
    if part.encoding is Encoding.FP4:
        scales = _scales(source, part.scale, rows)
        groups = E2M1[unpack_fp4(stored)].reshape(len(stored), -1, FP4_BLOCK)
        return (groups * scales[:, :, None]).reshape(len(stored), -1)
    scales = _scales(source, part.scale, slice(rows.start // FP8_BLOCK, ceil(rows.stop / FP8_BLOCK)))
    spread = scales.repeat(FP8_BLOCK, axis=0)[: len(stored)].repeat(FP8_BLOCK, axis=1)[:, : part.columns]
    values: Floats = E4M3[stored] * spread
    return values


def read_mxfp4(source: SafetensorsSource, part: SourcePart, rows: slice) -> Bytes:
    """FP4 rows as MXFP4 blocks, without looking at the numbers."""
    assert part.scale is not None
    scales = _rows_of(source, part.scale, True, rows)
    _require_powers(part.scale, scales)
    return repack_as_mxfp4(_rows_of(source, part.weight, True, rows), scales)


def read_integers(source: SafetensorsSource, part: SourcePart, rows: slice, limit: int) -> Bytes:
    """Indices in 0..limit-1 as the bytes of I32."""
    stored = _rows_of(source, part.weight, len(part.shape) > 1, rows)
    values = stored.view(np.int64 if part.weight.dtype == "I64" else np.int32)
    if values.size and not (values.min() >= 0 and values.max() < limit):
        raise FileFormatError(
            f"{part.weight.path}: {part.weight.name} holds numbers from {values.min()} to {values.max()}, "
            f"expected indices of {limit} experts"
        )
    return values.astype(np.int32).reshape(-1).view(np.uint8)


def _rows_of(source: SafetensorsSource, tensor: SourceTensor, has_rows: bool, rows: slice) -> Bytes:
    """(rows, bytes of a row); a vector is one row."""
    data = source.data(tensor)
    return data.reshape(tensor.shape[0] if has_rows else 1, -1)[rows]


def _scales(source: SafetensorsSource, scale: SourceTensor, rows: slice) -> Floats:
    stored = _rows_of(source, scale, True, rows)
    if scale.dtype in PLAIN_TYPES:
        return _PLAIN_DECODERS[scale.dtype](stored)
    _require_powers(scale, stored)
    return E8M0[stored]


def _require_powers(scale: SourceTensor, stored: Bytes) -> None:
    if (stored == NAN_SCALE).any():
        raise FileFormatError(
            f"{scale.path}: {scale.name} holds a scale that is not a number. Download the file again."
        )
