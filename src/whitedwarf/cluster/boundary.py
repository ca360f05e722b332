"""Streams between two parts of a model as bytes, in 32, 16 or 8 bits a number.

32 bits are the numbers themselves, so a model in parts has the bits of one in a piece. 16 bits are half precision; what
is too large for that becomes the largest there is. 8 bits are E4M3 with one scale for each row of D numbers (one stream
of one token), which makes the largest of them 448:

    32   n * S * D  f32                          16   n * S * D  f16
     8   n * S  f32 scales, then n * S * D  e4m3; a number is its byte times the row's scale

All little-endian. What is not a number stays none; at 8 bits an infinity becomes the row's largest finite number. Where
a row's largest number is so small that its scale would be none of f32's ordinary ones, the row becomes zeros.
"""

from typing import Literal, get_args

import ml_dtypes
import numpy as np
import numpy.typing as npt

Bits = Literal[32, 16, 8]
Bytes = npt.NDArray[np.uint8]  # (size,)
Floats = npt.NDArray[np.float32]

ALL_BITS: tuple[Bits, ...] = get_args(Bits)
LARGEST_F16 = 65504.0
LARGEST_E4M3 = 448.0
_F32, _F16 = np.dtype("<f4"), np.dtype("<f2")
_SMALLEST = float(np.finfo(np.float32).tiny)
_NUMBERS = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)  # of each byte


def size_bytes(shape: tuple[int, int, int], bits: Bits) -> int:
    """Of streams (n, S, D)."""
    rows = shape[0] * shape[1]
    return rows * shape[2] * bits // 8 + (rows * _F32.itemsize if bits == 8 else 0)


def encode(streams: Floats, bits: Bits) -> Bytes:
    """(n, S, D) -> bytes; at 32 bits a view where the array allows it."""
    match bits:
        case 32:
            return _as_bytes(np.ascontiguousarray(streams, _F32))
        case 16:
            held = np.clip(streams, -LARGEST_F16, LARGEST_F16)
            return _as_bytes(held.astype(_F16))
        case 8:
            return _encode_8(streams)
    raise ValueError(f"expected 32, 16 or 8 bits, got {bits}")


def decode(data: Bytes, shape: tuple[int, int, int], bits: Bits) -> Floats:
    """Bytes -> (n, S, D), an array of its own that may be written to; at 32 bits in the memory of `data` where that may
    be written to. ValueError where the size is not that of the shape."""
    if bits not in ALL_BITS:
        raise ValueError(f"expected 32, 16 or 8 bits, got {bits}")
    data = np.frombuffer(data, np.uint8)
    if len(data) != size_bytes(shape, bits):
        raise ValueError(
            f"expected {size_bytes(shape, bits)} bytes for streams {shape} in {bits} bits, got {len(data)}"
        )
    match bits:
        case 32:
            return np.require(data.view(_F32).reshape(shape), np.float32, ["C", "A", "W"])
        case 16:
            return data.view(_F16).reshape(shape).astype(np.float32)
        case 8:
            return _decode_8(data, shape)


def _encode_8(streams: Floats) -> Bytes:
    largest = np.abs(streams).max(axis=2, keepdims=True)
    if not np.isfinite(largest).all():
        sizes = np.where(np.isfinite(streams), np.abs(streams), 0)
        largest = sizes.max(axis=2, keepdims=True)
        streams = np.clip(streams, -largest, largest)
    scales = (largest / LARGEST_E4M3).astype(_F32)
    scales[scales < _SMALLEST] = 0
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    numbers = (streams * inverse).astype(ml_dtypes.float8_e4m3fn)  # 448 and a rounding error is 448 again
    return np.concatenate([_as_bytes(scales), _as_bytes(numbers)])


def _decode_8(data: Bytes, shape: tuple[int, int, int]) -> Floats:
    end = shape[0] * shape[1] * _F32.itemsize
    scales = data[:end].view(_F32).reshape(*shape[:2], 1)
    numbers = _NUMBERS[data[end:].reshape(shape)]
    with np.errstate(over="ignore"):
        decoded: Floats = np.multiply(numbers, scales, out=numbers)
    return decoded


def _as_bytes(array: npt.NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
