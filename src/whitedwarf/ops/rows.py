"""Encoding and decoding of stored KV rows and index keys: the official FP8/FP4 arithmetic (fact sheet 2.7), in numpy.

This is the slow, obvious reference of what native/ does. Rounding is exact: powers of two come from the IEEE bits of
amax * (1/448) or amax * (1/6) in float32, as in the official kernels, never from a logarithm.
"""

import ml_dtypes
import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import KEY_BLOCK, KV_BLOCK, ByteArray, FloatArray, RowFormat, RowKind

E4M3_MAX = 448.0
E2M1_MAX = 6.0
E8M0_BIAS = 127


def encode_rows(x: FloatArray, format: RowFormat) -> ByteArray:
    """(n, dims) floats -> (n, row_bytes) stored rows. Index keys are rotated here, not before."""
    match format.kind:
        case RowKind.F32:
            return as_bytes(x.astype(np.float32))
        case RowKind.F16:
            return as_bytes(x.astype(np.float16))
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _pack_kv(x.astype(np.float32), format)
        case RowKind.PACKED_KEY:
            return _pack_key(hadamard(x).astype(np.float32))


def encode_stored(x: FloatArray, format: RowFormat) -> ByteArray:
    """Encode values that `decode_rows` gave: they decode to the same numbers again, and keys are not rotated twice.

    The bytes may differ where two of them mean the same: a block whose largest code fits the next smaller scale too.
    """
    if len(x) == 0:
        return np.empty((0, format.row_bytes), np.uint8)
    if format.kind is RowKind.PACKED_KEY:
        return _pack_key(x.astype(np.float32))
    return encode_rows(x, format)


def decode_rows(data: ByteArray, format: RowFormat, dtype: npt.DTypeLike) -> FloatArray:
    """(n, row_bytes) stored rows -> (n, dims) floats; packed keys stay in their rotated frame."""
    match format.kind:
        case RowKind.F32:
            return np.ascontiguousarray(data).view(np.float32).astype(dtype)
        case RowKind.F16:
            return np.ascontiguousarray(data).view(np.float16).astype(dtype)
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _unpack_kv(data, format).astype(dtype)
        case RowKind.PACKED_KEY:
            return _unpack_key(data, format).astype(dtype)


def round_like_keys(x: FloatArray, format: RowFormat) -> FloatArray:
    """What index queries become beside keys of this format: rotated and rounded to FP4, or untouched."""
    if format.kind is not RowKind.PACKED_KEY:
        return x
    flat = x.reshape(-1, x.shape[-1])
    return decode_rows(encode_rows(flat, format), format, x.dtype).reshape(x.shape)


def hadamard(x: FloatArray) -> FloatArray:
    """Normalised Walsh-Hadamard transform of the last axis, natural (Sylvester) order."""
    size = x.shape[-1]
    y = x.copy()
    stride = 1
    while stride < size:
        pairs = y.reshape(*x.shape[:-1], size // (2 * stride), 2, stride)
        low, high = pairs[..., 0, :].copy(), pairs[..., 1, :].copy()
        pairs[..., 0, :], pairs[..., 1, :] = low + high, low - high
        stride *= 2
    return y * y.dtype.type(size**-0.5)


def power_of_two_above(ratio: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """The exponent e with 2^e >= ratio > 2^(e-1), from the bits of a positive normal float32; 128 of inf and NaN."""
    bits = ratio.view(np.uint32)
    exponent: npt.NDArray[np.int32] = (bits >> 23).astype(np.int32) - E8M0_BIAS + ((bits & 0x7FFFFF) != 0)
    return np.minimum(exponent, 128)


def as_bytes(x: npt.NDArray[np.generic]) -> ByteArray:
    """(n, k) of any type -> (n, k * itemsize) bytes."""
    return np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)


def _pack_kv(x: npt.NDArray[np.float32], format: RowFormat) -> ByteArray:
    plain = format.dims - format.rope_dims
    codes, scales = [], []
    for start in range(0, plain, KV_BLOCK):
        block = x[:, start : min(start + KV_BLOCK, plain)]
        amax = np.maximum(np.abs(block).max(axis=1), np.float32(1e-4))
        exponent = power_of_two_above(amax * np.float32(1 / E4M3_MAX))
        scaled = np.clip(np.ldexp(block, -exponent[:, None]), -E4M3_MAX, E4M3_MAX)
        codes.append(scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
        scales.append((exponent + E8M0_BIAS).astype(np.uint8)[:, None])
    tail = as_bytes(x[:, plain:].astype(_tail_type(format)))
    return np.concatenate([*codes, *scales, tail], axis=1)


def _unpack_kv(data: ByteArray, format: RowFormat) -> npt.NDArray[np.float32]:
    plain = format.dims - format.rope_dims
    num_blocks = -(-plain // KV_BLOCK)
    codes = np.ascontiguousarray(data[:, :plain]).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    values = _scaled(codes, np.repeat(data[:, plain : plain + num_blocks], KV_BLOCK, axis=1)[:, :plain])
    tail = np.ascontiguousarray(data[:, plain + num_blocks :]).view(_tail_type(format)).astype(np.float32)
    return np.concatenate([values, tail], axis=1)


def _tail_type(format: RowFormat) -> type[np.float16] | type[np.float32]:
    return np.float32 if format.kind is RowKind.PACKED_KV else np.float16


def _pack_key(x: npt.NDArray[np.float32]) -> ByteArray:
    n, dims = x.shape
    blocks = x.reshape(n, -1, KEY_BLOCK)
    amax = np.maximum(np.abs(blocks).max(axis=2), np.float32(E2M1_MAX * 2.0**-126))
    exponent = power_of_two_above(amax * np.float32(1 / E2M1_MAX))
    scaled = np.clip(np.ldexp(blocks, -exponent[:, :, None]), -E2M1_MAX, E2M1_MAX)
    codes = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(n, dims)
    nibbles = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return np.concatenate([nibbles, (exponent + E8M0_BIAS).astype(np.uint8)], axis=1)


def _unpack_key(data: ByteArray, format: RowFormat) -> npt.NDArray[np.float32]:
    half = format.dims // 2
    codes = np.empty((len(data), format.dims), np.uint8)
    codes[:, 0::2], codes[:, 1::2] = data[:, :half] & 15, data[:, :half] >> 4
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return _scaled(values, np.repeat(data[:, half:], KEY_BLOCK, axis=1))


def _scaled(values: npt.NDArray[np.float32], scales: ByteArray) -> npt.NDArray[np.float32]:
    """Values times 2^(scale - 127); scale 255 is NaN, so that a block that held an inf or a NaN comes out as NaN."""
    is_number = scales != 255
    scaled: npt.NDArray[np.float32] = np.ldexp(values, np.where(is_number, scales.astype(np.int32) - E8M0_BIAS, 0))
    return np.where(is_number, scaled, np.float32(np.nan))
