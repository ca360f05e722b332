"""Codecs of the plain types: floats, Q8_0 and MXFP4 (model.md 5.1, 5.3).

Every function maps whole blocks, (blocks, block_bytes) uint8 <-> (blocks, block_size) float32; `codecs` cuts the
pieces.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

# Twice the e2m1 values, as ggml keeps them; the scale is halved to match. Code 8 is minus zero, which counts as zero.
FP4_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
_FP4_MIDPOINTS = np.array([0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0], np.float32)


def _half_scales() -> Floats:
    """2^(byte - 128) for every e8m0 byte; the two smallest are denormal."""
    return np.ldexp(np.float32(1), np.arange(256, dtype=np.int32) - 128).astype(np.float32)


HALF_SCALES = _half_scales()
LARGEST_SEARCHED = np.float32(2.0**26)


def halves_to_floats(data: Bytes) -> Floats:
    """float16 bytes (blocks, 2 n) -> (blocks, n) float32."""
    return np.ascontiguousarray(data).view(np.float16).astype(np.float32)


def floats_to_halves(values: Floats) -> Bytes:
    """(blocks, n) float32 -> float16 bytes (blocks, 2 n); refuses what float16 cannot hold."""
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    if not np.isfinite(halves).all():
        raise beyond_float16(_worst(values))
    return halves.view(np.uint8)


def require_finite(values: Floats) -> None:
    """A block format has no way to write infinities; they would spoil all their neighbours silently."""
    if not np.isfinite(values).all():
        raise not_finite()


def require_searchable(values: Floats) -> None:
    """The same for formats with a search, none of which reaches as far as 2^26: sums of squares could overflow."""
    require_finite(values)
    if (np.abs(values) > LARGEST_SEARCHED).any():
        raise beyond_float16(_worst(values))


def beyond_float16(value: float) -> ValueError:
    """What to say about a value or a scale that float16 cannot hold."""
    return ValueError(f"expected finite numbers within float16's ±65504, got {value}; use BF16 or F32")


def not_finite() -> ValueError:
    """What to say about a block with an infinity in it."""
    return ValueError("expected finite numbers, got inf or nan; a quantised type cannot hold them")


def _worst(values: Floats) -> float:
    return float(np.where(np.isfinite(values), np.abs(values), np.inf).max())


def decode_f32(blocks: Bytes) -> Floats:
    return blocks.view(np.float32)


def decode_i32(blocks: Bytes) -> Floats:
    """The one type that is not about floats; the dtype of the result is int32."""
    return blocks.view(np.int32)


def decode_f16(blocks: Bytes) -> Floats:
    return blocks.view(np.float16).astype(np.float32)


def decode_bf16(blocks: Bytes) -> Floats:
    return (blocks.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def decode_q8_0(blocks: Bytes) -> Floats:
    return blocks[:, 2:].view(np.int8).astype(np.float32) * halves_to_floats(blocks[:, :2])


def decode_mxfp4(blocks: Bytes) -> Floats:
    codes = np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], axis=1)
    values: Floats = FP4_DOUBLED[codes] * HALF_SCALES[blocks[:, :1]]
    return values


def encode_f32(blocks: Floats, weights: Floats | None = None) -> Bytes:
    return blocks.view(np.uint8)


def encode_f16(blocks: Floats, weights: Floats | None = None) -> Bytes:
    return floats_to_halves(blocks)


def encode_bf16(blocks: Floats, weights: Floats | None = None) -> Bytes:
    """Round to nearest even; a not-a-number stays one (its payload could otherwise round up to infinity)."""
    bits = blocks.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(blocks), quiet, rounded).astype(np.uint16).view(np.uint8)


def encode_q8_0(blocks: Floats, weights: Floats | None = None) -> Bytes:
    """d = largest / 127; the quants use d before it is rounded to float16, halves round away from zero."""
    require_finite(blocks)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / scale
    inverse[~np.isfinite(inverse)] = 0  # zero, or so small that float16 stores zero
    scaled = blocks * inverse
    whole = np.trunc(scaled)
    quants = (whole + np.trunc(2 * (scaled - whole))).astype(np.int8)
    return np.concatenate([floats_to_halves(scale), quants.view(np.uint8)], axis=1)


def encode_mxfp4(blocks: Floats, weights: Floats | None = None) -> Bytes:
    """Scale 2^(floor(log2(largest)) - 2), codes by nearest value, a tie towards zero."""
    require_finite(blocks)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        exponent = np.where(largest > 0, np.floor(np.log2(largest)) + np.float32(125), np.float32(0))
    scale = np.clip(exponent, 0, 254).astype(np.uint8)
    magnitude = np.searchsorted(_FP4_MIDPOINTS, np.abs(blocks) / HALF_SCALES[scale]).astype(np.uint8)
    codes = np.where((blocks < 0) & (magnitude > 0), magnitude | 8, magnitude).astype(np.uint8)
    return np.concatenate([scale, codes[:, :16] | (codes[:, 16:] << 4)], axis=1)
