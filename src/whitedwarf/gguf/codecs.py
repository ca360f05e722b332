"""Tensor bytes to numbers and back, for every tensor type this project meets (model.md 5.1, 5.3).

`decode` is the truth the kernels are tested against: it is bit-equal to the public `gguf` package wherever the result
is a number. `encode` makes the blocks that ggml makes, bit for bit: it is the reference of the native encoders
(`encoder.py`), and slow where there is a search (Q4_K, Q2_K and IQ2_XXS).
Both work in pieces of whole blocks, so nothing bigger than the result is ever held.

It does not know names, files or which tensor deserves which type.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf import codecs_iq, codecs_k, codecs_plain, encode_iq2, encode_k
from whitedwarf.gguf.column_weights import column_energy, prepared
from whitedwarf.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

PIECE_ELEMENTS = 1 << 18  # one megabyte of float32: the temporaries of a piece stay in the cache

# (blocks, block_bytes) uint8 -> (blocks, block_size)
_DECODERS: dict[GgmlType, Callable[[Bytes], Floats]] = {
    GgmlType.F32: codecs_plain.decode_f32,
    GgmlType.F16: codecs_plain.decode_f16,
    GgmlType.BF16: codecs_plain.decode_bf16,
    GgmlType.I32: codecs_plain.decode_i32,
    GgmlType.Q8_0: codecs_plain.decode_q8_0,
    GgmlType.MXFP4: codecs_plain.decode_mxfp4,
    GgmlType.Q2_K: codecs_k.decode_q2_k,
    GgmlType.Q3_K: codecs_k.decode_q3_k,
    GgmlType.Q4_K: codecs_k.decode_q4_k,
    GgmlType.Q5_K: codecs_k.decode_q5_k,
    GgmlType.Q6_K: codecs_k.decode_q6_k,
    GgmlType.IQ2_XXS: codecs_iq.decode_iq2_xxs,
}

# (blocks, block_size) float32, the same shape of importances or None -> (blocks, block_bytes) uint8
_ENCODERS: dict[GgmlType, Callable[[Floats, Floats | None], Bytes]] = {
    GgmlType.F32: codecs_plain.encode_f32,
    GgmlType.F16: codecs_plain.encode_f16,
    GgmlType.BF16: codecs_plain.encode_bf16,
    GgmlType.Q8_0: codecs_plain.encode_q8_0,
    GgmlType.MXFP4: codecs_plain.encode_mxfp4,
    GgmlType.Q2_K: encode_k.encode_q2_k,
    GgmlType.Q4_K: encode_k.encode_q4_k,
    GgmlType.IQ2_XXS: encode_iq2.encode_iq2_xxs,
}

ENCODABLE_TYPES = frozenset(_ENCODERS)


def decode(data: Bytes, type: GgmlType, shape: Sequence[int]) -> NDArray[np.float32]:
    """Decode `data` to a new array of `shape` (slowest axis first): float32, but int32 for I32.

    Raises ValueError when `data` does not have exactly the bytes of `shape`.
    """
    blocks = _as_blocks(data, type, shape)
    decoder = _DECODERS[type]
    out: Floats = np.empty((len(blocks), type.block_size), np.int32 if type is GgmlType.I32 else np.float32)
    with np.errstate(all="ignore"):  # infinite and not-a-number scales are legal bytes; they decode to what they say
        for piece in _pieces(len(blocks), type):
            out[piece] = decoder(blocks[piece])
    return out.reshape(tuple(shape))


def encode(values: Floats, type: GgmlType, weights: Floats | None = None) -> Bytes:
    """Encode `values` (..., columns) to the bytes of `type`, 1-D.

    `weights` says how much each value matters (an imatrix: usually one number per column) and is broadcast to `values`.
    Raises ValueError for a type without an encoder, a row that is not whole blocks, and values the type cannot hold.
    """
    if type not in _ENCODERS:
        known = ", ".join(sorted(encodable.name for encodable in _ENCODERS))
        raise ValueError(f"no encoder for {type.name}; there are encoders for {known}")
    if values.ndim == 0:
        raise ValueError("expected an array of rows, got a single number")
    type.row_bytes(values.shape[-1])
    if weights is None and type is GgmlType.IQ2_XXS:
        weights = column_energy(values)
    return _encode_pieces(values, type, weights)


def _encode_pieces(values: Floats, type: GgmlType, weights: Floats | None) -> Bytes:
    size = type.block_size
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, size)
    importance = None if weights is None else _Importance.of(prepared(weights, size), values.shape, size)
    out = np.empty((len(blocks), type.block_bytes), np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):  # of squares only; what is stored is checked where it is rounded
        for piece in _pieces(len(blocks), type):
            chosen = None if importance is None else importance.rows(piece)
            out[piece] = _ENCODERS[type](blocks[piece], chosen)
    return out.reshape(-1)


@dataclass(frozen=True, slots=True)
class _Importance:
    """Importances cut into blocks, without ever being spelt out for the whole tensor."""

    blocks: Floats  # (matrices, blocks per row, block_size)
    blocks_per_row: int
    blocks_per_matrix: int

    @classmethod
    def of(cls, weights: Floats, shape: tuple[int, ...], block_size: int) -> "_Importance":
        columns = shape[-1]
        per_row = columns // block_size
        if weights.ndim >= 2 and weights.shape[-2] != 1:  # one number per value: every row its own "matrix"
            spelt = np.broadcast_to(weights, shape)
            return cls(np.ascontiguousarray(spelt, np.float32).reshape(-1, per_row, block_size), per_row, per_row)
        matrices, rows = shape[:-2], (shape[-2] if len(shape) > 1 else 1)
        spelt = np.broadcast_to(weights.reshape((*weights.shape[:-2], columns)), (*matrices, columns))
        return cls(np.asarray(spelt, np.float32).reshape(-1, per_row, block_size), per_row, per_row * rows)

    def rows(self, piece: slice) -> Floats:
        index = np.arange(piece.start, piece.stop)
        chosen: Floats = self.blocks[index // self.blocks_per_matrix, index % self.blocks_per_row]
        return chosen


def _as_blocks(data: Bytes, type: GgmlType, shape: Sequence[int]) -> Bytes:
    columns = shape[-1] if len(shape) else 1
    expected = type.row_bytes(columns) * prod(shape[:-1])
    if data.dtype != np.uint8 or data.size != expected:
        raise ValueError(
            f"a {type.name} tensor of shape {tuple(shape)} has {expected} bytes; got {data.size} of {data.dtype}"
        )
    return data.reshape(-1, type.block_bytes)


def _pieces(num_blocks: int, type: GgmlType) -> Iterator[slice]:
    step = PIECE_ELEMENTS // type.block_size
    for start in range(0, num_blocks, step):
        yield slice(start, min(start + step, num_blocks))
