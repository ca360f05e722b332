"""Norms, rotary turns and stored rows: what ops/rows.py says, in MLX, with the same bytes for the same floats."""

import ml_dtypes
import mlx.core as mx
import numpy as np

from whitedwarf.ops.base import KEY_BLOCK, KV_BLOCK, RowFormat, RowKind

E4M3_MAX, E2M1_MAX = 448.0, 6.0
BIAS = 127  # of f32 and of e8m0

E4M3 = mx.array(np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32))
E2M1 = mx.array(np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32))


def inverse_rms(x: mx.array, epsilon: float) -> mx.array:
    """1 / sqrt(mean(x^2) + epsilon) over the last axis, which stays."""
    return 1 / mx.sqrt(mx.mean(x * x, axis=-1, keepdims=True) + epsilon)


def rms_norm(x: mx.array, weight: mx.array, epsilon: float) -> mx.array:
    return x * inverse_rms(x, epsilon) * weight


def turn(x: mx.array, turns: mx.array, sign: int = 1) -> mx.array:
    """Rotate adjacent pairs of the tail of the last axis by turns (..., rope/2, 2) = (cos, sin); sign -1 turns back."""
    half = turns.shape[-2]
    if half == 0:
        return x
    head, tail = x[..., : x.shape[-1] - 2 * half], x[..., x.shape[-1] - 2 * half :]
    pairs = tail.reshape(*tail.shape[:-1], half, 2)
    cos, sin = turns[..., 0], sign * turns[..., 1]
    first = pairs[..., 0] * cos - pairs[..., 1] * sin
    second = pairs[..., 0] * sin + pairs[..., 1] * cos
    return mx.concatenate([head, mx.stack([first, second], axis=-1).reshape(tail.shape)], axis=-1)


def query(x: mx.array, heads: int, turns: mx.array, epsilon: float) -> mx.array:
    """(n, H d) -> (n, H, d): weightless RMS norm per head, then the rotary tail turned."""
    q = x.reshape(x.shape[0], heads, -1)
    return turn(q * inverse_rms(q, epsilon), turns[:, None])


def kv_rows(x: mx.array, norm: mx.array, turns: mx.array, epsilon: float, format: RowFormat) -> mx.array:
    """(n, d) -> stored rows (n, row_bytes)."""
    return encode_rows(turn(rms_norm(x, norm, epsilon), turns), format)


def index_query(x: mx.array, heads: int, turns: mx.array, format: RowFormat) -> mx.array:
    """(n, heads d) -> (n, heads, d): turned; rotated and rounded if the keys are packed."""
    turned = turn(x.reshape(x.shape[0], heads, -1), turns[:, None])
    if format.kind is not RowKind.PACKED_KEY:
        return turned
    flat = turned.reshape(-1, turned.shape[-1])
    return decode_rows(encode_rows(flat, format), format).reshape(turned.shape)


def encode_rows(x: mx.array, format: RowFormat) -> mx.array:
    """(n, dims) f32 -> (n, row_bytes) stored rows. Index keys are rotated here, not before."""
    match format.kind:
        case RowKind.F32:
            return x.view(mx.uint8)
        case RowKind.F16:
            return x.astype(mx.float16).view(mx.uint8)
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _pack_kv(x, format)
        case RowKind.PACKED_KEY:
            return _pack_key(hadamard(x))


def decode_rows(data: mx.array, format: RowFormat) -> mx.array:
    """(n, row_bytes) stored rows -> (n, dims) f32; packed keys stay in their rotated frame."""
    match format.kind:
        case RowKind.F32:
            return mx.contiguous(data).view(mx.float32)
        case RowKind.F16:
            return mx.contiguous(data).view(mx.float16).astype(mx.float32)
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _unpack_kv(data, format)
        case RowKind.PACKED_KEY:
            return _unpack_key(data, format)


def hadamard(x: mx.array) -> mx.array:
    """Normalised Walsh-Hadamard transform of the last axis, natural order, added up in the order of ops/rows.py."""
    n, size = x.shape
    y, stride = x, 1
    while stride < size:
        pairs = y.reshape(n, size // (2 * stride), 2, stride)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        y = mx.stack([low + high, low - high], axis=2).reshape(n, size)
        stride *= 2
    return y * float(np.float32(size**-0.5))


def _pack_kv(x: mx.array, format: RowFormat) -> mx.array:
    plain = format.dims - format.rope_dims
    blocks = _blocks(x[:, :plain], KV_BLOCK)
    amax = mx.maximum(mx.abs(blocks).max(axis=2), float(np.float32(1e-4)))
    exponents = _power_of_two_above(amax * float(np.float32(1 / E4M3_MAX)))
    codes = _e4m3(mx.clip(_scaled_down(blocks, exponents), -E4M3_MAX, E4M3_MAX), blocks)
    flat = codes.reshape(x.shape[0], -1)[:, :plain]
    tail = x[:, plain:].astype(mx.float32 if format.kind is RowKind.PACKED_KV else mx.float16)
    return mx.concatenate([flat, (exponents + BIAS).astype(mx.uint8), mx.contiguous(tail).view(mx.uint8)], axis=1)


def _unpack_kv(data: mx.array, format: RowFormat) -> mx.array:
    n, plain = data.shape[0], format.dims - format.rope_dims
    num_blocks = -(-plain // KV_BLOCK)
    values = _blocks(E4M3[data[:, :plain]], KV_BLOCK)
    scaled = (values * _powers(data[:, plain : plain + num_blocks])[:, :, None]).reshape(n, -1)[:, :plain]
    tail = mx.contiguous(data[:, plain + num_blocks :])
    floats = tail.view(mx.float32 if format.kind is RowKind.PACKED_KV else mx.float16)
    return mx.concatenate([scaled, floats.astype(mx.float32)], axis=1)


def _pack_key(x: mx.array) -> mx.array:
    blocks = _blocks(x, KEY_BLOCK)
    amax = mx.maximum(mx.abs(blocks).max(axis=2), float(np.float32(E2M1_MAX * 2.0**-126)))
    exponents = _power_of_two_above(amax * float(np.float32(1 / E2M1_MAX)))
    codes = _e2m1(mx.clip(_scaled_down(blocks, exponents), -E2M1_MAX, E2M1_MAX)).reshape(x.shape)
    nibbles = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return mx.concatenate([nibbles, (exponents + BIAS).astype(mx.uint8)], axis=1)


def _unpack_key(data: mx.array, format: RowFormat) -> mx.array:
    half = format.dims // 2
    packed = data[:, :half, None]
    codes = mx.concatenate([packed & 15, packed >> 4], axis=2).reshape(data.shape[0], -1)
    return (_blocks(E2M1[codes], KEY_BLOCK) * _powers(data[:, half:])[:, :, None]).reshape(data.shape[0], -1)


def _blocks(x: mx.array, size: int) -> mx.array:
    """(n, k) -> (n, blocks, size), the last one filled up with zeros."""
    n, width = x.shape
    if width % size:
        x = mx.pad(x, ((0, 0), (0, -width % size)))
    return x.reshape(n, -1, size)


def _power_of_two_above(ratio: mx.array) -> mx.array:
    """The exponent e with 2^e >= ratio > 2^(e-1), from the bits of a positive normal f32; 128 of inf and NaN."""
    bits = ratio.view(mx.uint32)
    exponents = (bits >> 23).astype(mx.int32) - BIAS + ((bits & 0x7FFFFF) != 0).astype(mx.int32)
    return mx.minimum(exponents, 128)


def _scaled_down(blocks: mx.array, exponents: mx.array) -> mx.array:
    """Blocks times 2^-exponent, in two steps, since 2^-128 is no normal number."""
    half = exponents // 2
    return blocks * _two_to(-half)[:, :, None] * _two_to(half - exponents)[:, :, None]


def _two_to(exponents: mx.array) -> mx.array:
    """2^e of exponents of normal numbers, from their bits."""
    return ((exponents + BIAS).astype(mx.uint32) << 23).view(mx.float32)


def _powers(scales: mx.array) -> mx.array:
    """2^(scale - 127) of e8m0 bytes; scale 255 is NaN. 0, the one that is no normal f32, is never stored."""
    bits = scales.astype(mx.uint32) << 23
    return mx.where(scales == 255, mx.array(0x7FC00000, mx.uint32), bits).view(mx.float32)


def _e4m3(x: mx.array, original: mx.array) -> mx.array:
    """Codes of values within ±448: magnitudes in steps of an eighth of their power of two, halves to even."""
    codes = _codes(x, lowest_exponent=-6, mantissa_bits=3)
    return mx.where(mx.isnan(original), mx.array(0x7F, mx.uint8) | (codes & 0x80), codes)


def _e2m1(x: mx.array) -> mx.array:
    codes = _codes(x, lowest_exponent=0, mantissa_bits=1)
    return (codes & 7) | ((codes >> 7) << 3)


def _codes(x: mx.array, lowest_exponent: int, mantissa_bits: int) -> mx.array:
    """The sign in bit 7; below it exponent and mantissa, into which a magnitude in steps of its exponent falls."""
    bits = x.view(mx.uint32)
    exponents = mx.maximum(((bits >> 23) & 255).astype(mx.int32) - BIAS, lowest_exponent)
    steps = mx.round(mx.abs(x) * _two_to(mantissa_bits - exponents)).astype(mx.int32)
    magnitudes = ((exponents - lowest_exponent) << mantissa_bits) + steps
    return (magnitudes.astype(mx.uint32) | ((bits >> 24) & 0x80)).astype(mx.uint8)
