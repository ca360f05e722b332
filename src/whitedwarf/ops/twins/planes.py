"""A GGUF tensor on a torch device: its blocks, split into planes whose loads are aligned and coalesced.

A block of GGUF mixes quants and scales at odd offsets (34 bytes of Q8_0, 66 of IQ2_XXS). Here each part of the blocks
of a tensor lies together, in the order of the file, so the planes have together the bytes of the tensor: nothing is
decoded, nothing is lost (`raw_bytes` gives the file's bytes back). Every plane is contiguous and of shape
(*shape[:-1], elements of a row); `plane[expert]` and `plane[row]` are the planes of an expert and of a row.

    type      planes (elements a block)
    F32       values f32 (1)
    F16       values f16 (1)
    BF16      values bf16 (1)
    Q8_0      quants int8 (32), scale f16 (1)
    Q4_K      quants uint8 (128), small scales uint8 (12), scale and offset f16 (2)
    Q2_K      quants uint8 (64), small scales uint8 (16), scale and offset f16 (2)
    IQ2_XXS   codes int32 (16: eight pairs of four grid bytes and a word of signs and scale), scale f16 (1)
    MXFP4     quants uint8 (16), scale uint8 (1)

Q3_K, Q5_K and Q6_K, which few files have, are taken in as F16. Decoding is bit-equal to gguf/codecs wherever the result
is a number. It does not know what a tensor is for, nor where the bytes of a file come from.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whitedwarf.gguf.codecs import decode as decode_bytes
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.twins.blocks import decode_blocks
from whitedwarf.weights.tensors import Tensor as FileTensor

PIECE_BYTES = 1 << 26  # of the file's bytes, uploaded and split at once
PIECE_VALUES = 1 << 24  # decoded at once, of the types that are taken in as F16
TAKEN_AS_F16 = frozenset({GgmlType.Q3_K, GgmlType.Q5_K, GgmlType.Q6_K})


@dataclass(frozen=True, slots=True)
class TorchWeight:
    """A tensor on a device. The planes are documented in the module's docstring."""

    type: GgmlType
    shape: tuple[int, ...]  # (rows, columns) or (experts, rows, columns)
    planes: tuple[Tensor, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all planes: those of the tensor in its file, unless it was taken in as another type."""
        return sum(plane.numel() * plane.element_size() for plane in self.planes)


@dataclass(frozen=True, slots=True)
class Part:
    """Where a plane's share of a block lies in the file."""

    first_byte: int
    size_bytes: int
    dtype: torch.dtype


PARTS: dict[GgmlType, tuple[Part, ...]] = {
    GgmlType.F32: (Part(0, 4, torch.float32),),
    GgmlType.F16: (Part(0, 2, torch.float16),),
    GgmlType.BF16: (Part(0, 2, torch.bfloat16),),
    GgmlType.Q8_0: (Part(2, 32, torch.int8), Part(0, 2, torch.float16)),
    GgmlType.Q4_K: (Part(16, 128, torch.uint8), Part(4, 12, torch.uint8), Part(0, 4, torch.float16)),
    GgmlType.Q2_K: (Part(16, 64, torch.uint8), Part(0, 16, torch.uint8), Part(80, 4, torch.float16)),
    GgmlType.IQ2_XXS: (Part(2, 64, torch.int32), Part(0, 2, torch.float16)),
    GgmlType.MXFP4: (Part(1, 16, torch.uint8), Part(0, 1, torch.uint8)),
}


def empty_weight(type: GgmlType, shape: tuple[int, ...], device: torch.device | str) -> TorchWeight:
    """A weight whose planes are to be filled by `split_blocks`. ValueError names the types there are."""
    if type not in PARTS:
        known = ", ".join(known_type.name for known_type in PARTS)
        raise ValueError(f"no product with {type.name} weights on a torch device; there are those with {known}")
    blocks = type.row_bytes(shape[-1]) // type.block_bytes
    planes = [
        torch.empty((*shape[:-1], blocks * part.size_bytes // part.dtype.itemsize), dtype=part.dtype, device=device)
        for part in PARTS[type]
    ]
    return TorchWeight(type, shape, tuple(planes))


def take_in(tensor: FileTensor, device: torch.device | str) -> TorchWeight:
    """Upload a tensor piece by piece and split it on the device; its file may be larger than the memory here."""
    if tensor.type in TAKEN_AS_F16:
        return _take_in_as_f16(tensor, device)
    weight = empty_weight(tensor.type, tensor.shape, device)
    parts = _by_block(weight.planes, tensor.type)
    per_piece = PIECE_BYTES // tensor.type.block_bytes
    num_blocks = tensor.data.size // tensor.type.block_bytes
    staging = _Staging(min(per_piece, num_blocks) * tensor.type.block_bytes, torch.device(device))
    for first in range(0, num_blocks, per_piece):
        end = min(first + per_piece, num_blocks)
        raw = staging.upload(tensor.data[first * tensor.type.block_bytes : end * tensor.type.block_bytes])
        split_blocks(raw, tensor.type, tuple(part[first:end] for part in parts))
    return weight


def split_blocks(raw: Tensor, type: GgmlType, out_planes: tuple[Tensor, ...]) -> None:
    """Fill contiguous `out_planes` (of some experts, rows or blocks) from the file's bytes (size,) uint8 of them."""
    blocks = raw.view(-1, type.block_bytes)
    for part, plane in zip(PARTS[type], _by_block(out_planes, type), strict=True):
        plane.copy_(blocks[:, part.first_byte : part.first_byte + part.size_bytes])


def raw_bytes(weight: TorchWeight) -> Tensor:
    """The bytes of the tensor as a file has them: (size,) uint8 on the weight's device."""
    parts = _by_block(weight.planes, weight.type)
    blocks = torch.empty((len(parts[0]), weight.type.block_bytes), dtype=torch.uint8, device=parts[0].device)
    for part, plane in zip(PARTS[weight.type], parts, strict=True):
        blocks[:, part.first_byte : part.first_byte + part.size_bytes] = plane
    return blocks.view(-1)


def decode(weight: TorchWeight) -> Tensor:
    """All values, f32 of the weight's shape."""
    return decode_blocks(weight.type, weight.planes).view(weight.shape)


def decode_rows(weight: TorchWeight, ids: Tensor) -> Tensor:
    """Rows `ids` (n,) of a (rows, columns) weight -> (n, columns) f32."""
    planes = tuple(plane[ids.long()] for plane in weight.planes)
    return decode_blocks(weight.type, planes).view(len(ids), weight.shape[-1])


def part_of(weight: TorchWeight, index: int | slice) -> TorchWeight:
    """One expert of a stack, or some rows of a matrix, in place."""
    planes = tuple(plane[index] for plane in weight.planes)
    return TorchWeight(weight.type, (*planes[0].shape[:-1], weight.shape[-1]), planes)


def _by_block(planes: tuple[Tensor, ...], type: GgmlType) -> tuple[Tensor, ...]:
    """Views on planes as (blocks, bytes of a part) uint8."""
    parts = zip(PARTS[type], planes, strict=True)
    return tuple(plane.view(-1).view(torch.uint8).view(-1, part.size_bytes) for part, plane in parts)


def _take_in_as_f16(tensor: FileTensor, device: torch.device | str) -> TorchWeight:
    weight = empty_weight(GgmlType.F16, tensor.shape, device)
    blocks = tensor.data.reshape(-1, tensor.type.block_bytes)
    values, step = weight.planes[0].view(-1), PIECE_VALUES // tensor.type.block_size
    for first in range(0, len(blocks), step):
        piece = blocks[first : first + step]
        decoded = decode_bytes(piece.reshape(-1), tensor.type, (piece.shape[0] * tensor.type.block_size,))
        start = first * tensor.type.block_size
        values[start : start + decoded.size] = torch.from_numpy(decoded).to(device).half()
    return weight


class _Staging:
    """Host memory through which a mapped file goes to a device; pinned where that makes copies fast."""

    def __init__(self, size_bytes: int, device: torch.device) -> None:
        self.device = device
        self.host = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=device.type == "cuda")

    def upload(self, data: np.ndarray) -> Tensor:
        """The bytes, on the device until the next call."""
        piece = self.host[: data.size]
        np.copyto(piece.numpy(), data.reshape(-1))
        return piece.to(self.device)
