"""Norms, rotary turns and stored rows (fact sheet 2.3, 2.5, 2.7), in plain torch.

Promises the bytes of ops/rows.py for the same f32 input, whatever it holds: exponents come from the IEEE bits, rounding
is done on the bits too, so that no device's own conversions matter.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from whitedwarf.ops.base import KEY_BLOCK, KV_BLOCK, RowFormat, RowKind
from whitedwarf.ops.rows import E2M1_MAX, E4M3_MAX, E8M0_BIAS
from whitedwarf.ops.twins.sums import inverse_rms

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True, slots=True)
class TorchRows:
    """Stored rows of one sequence on a device: row i stands for position (or compressed row) `first + i`."""

    format: RowFormat
    data: Tensor  # (count, row_bytes) uint8
    first: int = 0


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last axis."""
    return x * inverse_rms(x, epsilon) * weight


def turn(x: Tensor, turns: Tensor, sign: int = 1) -> Tensor:
    """Rotate adjacent pairs of the tail of the last axis by turns (..., rope/2, 2) = (cos, sin); sign -1 turns back."""
    half = turns.shape[-2]
    head, tail = x[..., : x.shape[-1] - 2 * half], x[..., x.shape[-1] - 2 * half :]
    pairs = tail.reshape(*tail.shape[:-1], half, 2)
    cos, sin = turns[..., 0], sign * turns[..., 1]
    first = pairs[..., 0] * cos - pairs[..., 1] * sin
    second = pairs[..., 0] * sin + pairs[..., 1] * cos
    return torch.cat([head, torch.stack([first, second], dim=-1).reshape(tail.shape)], dim=-1)


def query(x: Tensor, heads: int, turns: Tensor, epsilon: float) -> Tensor:
    """(n, H d) -> (n, H, d): weightless RMS norm per head, then the rotary tail turned."""
    q = x.reshape(len(x), heads, -1)
    return turn(q * inverse_rms(q, epsilon), turns[:, None])


def kv_rows(x: Tensor, norm: Tensor, turns: Tensor, epsilon: float, format: RowFormat) -> Tensor:
    """(n, d) -> stored rows (n, row_bytes)."""
    return encode_rows(turn(rms_norm(x, norm, epsilon), turns), format)


def index_query(x: Tensor, heads: int, turns: Tensor, format: RowFormat) -> Tensor:
    """(n, heads d) -> (n, heads, d): rotary tail turned; Hadamard and FP4 rounding if the keys are packed."""
    q = turn(x.reshape(len(x), heads, -1), turns[:, None])
    if format.kind is not RowKind.PACKED_KEY:
        return q
    flat = q.reshape(-1, q.shape[-1])
    return decode_rows(encode_rows(flat, format), format).reshape(q.shape)


def hadamard(x: Tensor) -> Tensor:
    """Normalised Walsh-Hadamard transform of the last axis, natural (Sylvester) order."""
    size, stride = x.shape[-1], 1
    y = x
    while stride < size:
        pairs = y.reshape(*x.shape[:-1], size // (2 * stride), 2, stride)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        y = torch.stack([low + high, low - high], dim=-2).reshape(x.shape)
        stride *= 2
    return y * size**-0.5


def encode_rows(x: Tensor, format: RowFormat) -> Tensor:
    """(n, dims) f32 -> (n, row_bytes) uint8. Index keys are rotated here, not before."""
    match format.kind:
        case RowKind.F32:
            return _as_bytes(x)
        case RowKind.F16:
            return _as_bytes(x.half())
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _pack_kv(x, format)
        case RowKind.PACKED_KEY:
            return _pack_key(hadamard(x))


def decode_rows(data: Tensor, format: RowFormat) -> Tensor:
    """(n, row_bytes) uint8 -> (n, dims) f32; packed keys stay in their rotated frame."""
    match format.kind:
        case RowKind.F32:
            return _of_bytes(data, torch.float32)
        case RowKind.F16:
            return _of_bytes(data, torch.float16).float()
        case RowKind.PACKED_KV_F16 | RowKind.PACKED_KV:
            return _unpack_kv(data, format)
        case RowKind.PACKED_KEY:
            return _unpack_key(data, format)


def _pack_kv(x: Tensor, format: RowFormat) -> Tensor:
    plain = format.dims - format.rope_dims
    codes, scales = [], []
    for start in range(0, plain, KV_BLOCK):
        block = x[:, start : min(start + KV_BLOCK, plain)]
        amax = torch.maximum(block.abs().amax(dim=1), torch.full((), 1e-4, device=x.device))
        exponent = _power_of_two_above(amax * (1 / E4M3_MAX))
        codes.append(_e4m3(_times_power(block, -exponent[:, None]).clamp(-E4M3_MAX, E4M3_MAX)))
        scales.append((exponent + E8M0_BIAS).to(torch.uint8)[:, None])
    tail = x[:, plain:]
    return torch.cat([*codes, *scales, _as_bytes(tail if format.kind is RowKind.PACKED_KV else tail.half())], dim=1)


def _unpack_kv(data: Tensor, format: RowFormat) -> Tensor:
    plain = format.dims - format.rope_dims
    num_blocks = -(-plain // KV_BLOCK)
    codes = data[:, :plain].contiguous().view(torch.float8_e4m3fn).float()
    values = _scaled(codes, data[:, plain : plain + num_blocks].repeat_interleave(KV_BLOCK, dim=1)[:, :plain])
    tail_type = torch.float32 if format.kind is RowKind.PACKED_KV else torch.float16
    return torch.cat([values, _of_bytes(data[:, plain + num_blocks :], tail_type).float()], dim=1)


def _pack_key(x: Tensor) -> Tensor:
    n, dims = x.shape
    blocks = x.reshape(n, -1, KEY_BLOCK)
    amax = torch.maximum(blocks.abs().amax(dim=2), torch.full((), E2M1_MAX * 2.0**-126, device=x.device))
    exponent = _power_of_two_above(amax * (1 / E2M1_MAX))
    codes = _e2m1(_times_power(blocks, -exponent[:, :, None])).reshape(n, dims)
    return torch.cat([codes[:, 0::2] | (codes[:, 1::2] << 4), (exponent + E8M0_BIAS).to(torch.uint8)], dim=1)


def _unpack_key(data: Tensor, format: RowFormat) -> Tensor:
    half = format.dims // 2
    codes = torch.stack([data[:, :half] & 15, data[:, :half] >> 4], dim=-1).reshape(len(data), -1).long()
    table = torch.tensor([*E2M1_VALUES, *(-value for value in E2M1_VALUES)], device=data.device)
    return _scaled(table[codes], data[:, half:].repeat_interleave(KEY_BLOCK, dim=1))


def _power_of_two_above(ratio: Tensor) -> Tensor:
    """The exponent e with 2^e >= ratio > 2^(e-1), from the bits of a positive normal f32; 128 of inf and NaN."""
    bits = ratio.contiguous().view(torch.int32)
    exponent = ((bits >> 23) & 0xFF) - E8M0_BIAS + ((bits & 0x7FFFFF) != 0).int()
    return exponent.clamp(max=128)


def _times_power(x: Tensor, exponent: Tensor) -> Tensor:
    """x * 2^exponent for exponents -128 .. 128: in two steps, because one power may be no normal number."""
    half = exponent >> 1
    return x * _power(half) * _power(exponent - half)


def _power(exponent: Tensor) -> Tensor:
    return ((exponent + E8M0_BIAS) << 23).view(torch.float32)


def _e4m3(x: Tensor) -> Tensor:
    """Codes of numbers within +-448, to nearest, ties to even; NaN stays NaN."""
    bits = x.contiguous().view(torch.int32)
    size = bits & 0x7FFFFFFF
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - (120 << 3)
    small = (size.view(torch.float32) + 2.0**14).view(torch.int32) & 0xFF  # 2^14 has steps of 2^-9
    code = torch.where(size < 0x3C800000, small, normal)  # 2^-6
    code = torch.where(size > 0x7F800000, 0x7F, code)
    return (code | ((bits >> 24) & 0x80)).to(torch.uint8)


def _e2m1(x: Tensor) -> Tensor:
    """Codes of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, ties to even codes."""
    size = x.abs()
    code = (size > 0.25).int() + (size >= 0.75) + (size > 1.25) + (size >= 1.75)
    code = code + (size > 2.5) + (size >= 3.5) + (size > 5)
    sign = (x.contiguous().view(torch.int32) >> 28) & 8
    return (code | sign).to(torch.uint8)


def _scaled(values: Tensor, scales: Tensor) -> Tensor:
    """Values times 2^(scale - 127); scale 255 is NaN."""
    is_number = scales != 255
    exponent = torch.where(is_number, scales.int() - E8M0_BIAS, 0)
    return torch.where(is_number, _times_power(values, exponent), torch.nan)


def _as_bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8).reshape(len(x), -1)


def _of_bytes(data: Tensor, dtype: torch.dtype) -> Tensor:
    if data.shape[1] == 0:
        return data.new_empty((len(data), 0), dtype=dtype)
    return data.clone(memory_format=torch.contiguous_format).view(dtype)  # where such numbers may begin
