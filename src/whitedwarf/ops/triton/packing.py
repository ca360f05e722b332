"""The rounding of stored rows (fact sheet 2.7) inside kernels: device functions that others call.

Everything is done on the bits of f32 numbers, so that the bytes are those of ops/rows.py on every device: no
conversion of the hardware's, and no multiplication with a number that is no normal one.
"""

import triton
import triton.language as tl

from whitedwarf.ops.base import RowFormat, RowKind

KINDS = {RowKind.F32: 0, RowKind.F16: 1, RowKind.PACKED_KV: 2, RowKind.PACKED_KEY: 3, RowKind.PACKED_KV_F16: 4}
F32 = tl.constexpr(0)
F16 = tl.constexpr(1)
PACKED_KV = tl.constexpr(2)
PACKED_KEY = tl.constexpr(3)
PACKED_KV_F16 = tl.constexpr(4)


def format_constants(format: RowFormat) -> dict[str, int]:
    """What kernels must know of a format."""
    return {
        "KIND": KINDS[format.kind],
        "DIMS": format.dims,
        "ROPE": format.rope_dims,
        "ROW_BYTES": format.row_bytes,
        "WIDTH": triton.next_power_of_2(format.dims),
    }


@triton.jit
def bits_of(x):
    return x.to(tl.int32, bitcast=True)


@triton.jit
def float_of(bits):
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def power_of_two_above(ratio):
    """The exponent e with 2^e >= ratio > 2^(e-1) of a positive normal number; 128 of inf and NaN."""
    bits = bits_of(ratio)
    exponent = ((bits >> 23) & 0xFF) - 127 + ((bits & 0x7FFFFF) != 0).to(tl.int32)
    return tl.minimum(exponent, 128)


@triton.jit
def times_power(x, exponent):
    """x * 2^exponent for exponents -128 .. 128, in two steps of normal numbers."""
    half = exponent >> 1
    return x * float_of((half + 127) << 23) * float_of((exponent - half + 127) << 23)


@triton.jit
def e4m3_codes(x):
    """uint8 codes, to nearest, ties to even, 448 at most; NaN stays NaN."""
    bits = bits_of(x)
    size = bits & 0x7FFFFFFF
    is_number = size <= 0x7F800000
    size = tl.minimum(size, 0x43E00000)  # 448
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - 960  # 120 << 3: the exponents' biases differ by 120
    small = bits_of(float_of(size) + 16384.0) & 0xFF  # 2^14 has steps of 2^-9
    code = tl.where(size < 0x3C800000, small, normal)  # 2^-6
    code = tl.where(is_number, code, 0x7F)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def e2m1_codes(x):
    """int32 codes of the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, ties to even codes."""
    bits = bits_of(x)
    size = tl.minimum(bits & 0x7FFFFFFF, 0x40C00000)  # 6
    normal = ((size + 0x1FFFFF + ((size >> 22) & 1)) >> 22) - 252  # 126 << 1: the exponents' biases differ by 126
    small = bits_of(float_of(size) + 4194304.0) & 3  # 2^22 has steps of 0.5
    return tl.where(size < 0x3F800000, small, normal) | ((bits >> 28) & 8)


@triton.jit
def e2m1_value(code):
    """The number of a code, as f32."""
    size = code & 7
    normal = float_of((size << 22) + (126 << 23))
    value = tl.where(size < 2, size.to(tl.float32) * 0.5, normal)
    return tl.where(code < 8, value, -value)


@triton.jit
def turned(x, partner, turns, dims, DIMS: tl.constexpr, ROPE: tl.constexpr, SIGN: tl.constexpr):
    """A row whose tail is turned: x and the other number of each pair, at `dims`; `turns` are the row's own."""
    plain: tl.constexpr = DIMS - ROPE
    is_tail = (dims >= plain) & (dims < DIMS)
    pair = (dims - plain) // 2
    cos = tl.load(turns + 2 * pair, mask=is_tail, other=1.0)
    sin = tl.load(turns + 2 * pair + 1, mask=is_tail, other=0.0)
    sin = tl.where((dims - plain) % 2 == 0, -SIGN * sin, SIGN * sin)
    return tl.where(is_tail, x * cos + partner * sin, x)


@triton.jit
def hadamard(y, ROWS: tl.constexpr, DIMS: tl.constexpr):
    """(ROWS, DIMS) -> its normalised Walsh-Hadamard transform, with the additions of ops/rows.py."""
    for step in tl.static_range(12):
        if (1 << step) < DIMS:
            pairs = tl.reshape(y, (ROWS, DIMS // (2 << step), 2, 1 << step))
            low, high = tl.split(tl.permute(pairs, (0, 1, 3, 2)))
            y = tl.reshape(tl.permute(tl.join(low + high, low - high), (0, 1, 3, 2)), (ROWS, DIMS))
    return y * (DIMS**-0.5)


@triton.jit
def fp4_exponents(blocks):
    """(rows, blocks, 32) -> (rows, blocks)."""
    size = tl.max(bits_of(blocks) & 0x7FFFFFFF, axis=2)  # of the bits: a NaN is the largest
    size = tl.maximum(size, 0x01C00000)  # 6 * 2^-126
    return power_of_two_above(float_of(size) * (1 / 6.0))


@triton.jit
def store_row(y, out, dims, KIND: tl.constexpr, DIMS: tl.constexpr, ROPE: tl.constexpr, WIDTH: tl.constexpr):
    """A row y (WIDTH,), whose tail is turned, at `dims` = arange(WIDTH): as its format says, to the bytes at `out`."""
    if KIND == F32:
        tl.store(out.to(tl.pointer_type(tl.float32)) + dims, y, mask=dims < DIMS)
    elif KIND == F16:
        tl.store(out.to(tl.pointer_type(tl.float16)) + dims, y.to(tl.float16), mask=dims < DIMS)
    elif KIND == PACKED_KEY:
        _store_key(y, out, DIMS)
    else:
        _store_kv(y, out, dims, KIND, DIMS, ROPE, WIDTH)


@triton.jit
def _store_kv(y, out, dims, KIND: tl.constexpr, DIMS: tl.constexpr, ROPE: tl.constexpr, WIDTH: tl.constexpr):
    plain: tl.constexpr = DIMS - ROPE
    num_blocks: tl.constexpr = (plain + 63) // 64
    blocks = tl.reshape(tl.where(dims < plain, y, 0.0), (WIDTH // 64, 64))
    size = tl.max(bits_of(blocks) & 0x7FFFFFFF, axis=1)  # of the bits: a NaN is the largest
    exponent = power_of_two_above(float_of(tl.maximum(size, 0x38D1B717)) * (1 / 448.0))  # 1e-4 at least
    codes = tl.reshape(e4m3_codes(times_power(blocks, -exponent[:, None])), (WIDTH,))
    tl.store(out + dims, codes, mask=dims < plain)
    block = tl.arange(0, WIDTH // 64)
    tl.store(out + plain + block, (exponent + 127).to(tl.uint8), mask=block < num_blocks)
    tail, is_tail = out + plain + num_blocks, (dims >= plain) & (dims < DIMS)
    if KIND == PACKED_KV:  # byte by byte: a row lies anywhere
        for i in tl.static_range(4):
            tl.store(tail + 4 * (dims - plain) + i, (bits_of(y) >> (8 * i)).to(tl.uint8), mask=is_tail)
    else:
        half = y.to(tl.float16).to(tl.int16, bitcast=True)
        for i in tl.static_range(2):
            tl.store(tail + 2 * (dims - plain) + i, (half >> (8 * i)).to(tl.uint8), mask=is_tail)


@triton.jit
def _store_key(y, out, DIMS: tl.constexpr):
    blocks = tl.reshape(hadamard(tl.reshape(y, (1, DIMS)), 1, DIMS), (1, DIMS // 32, 32))
    exponent = fp4_exponents(blocks)
    codes = e2m1_codes(times_power(blocks, -exponent[:, :, None]))
    low, high = tl.split(tl.reshape(codes, (DIMS // 2, 2)))
    tl.store(out + tl.arange(0, DIMS // 2), (low | (high << 4)).to(tl.uint8))
    scales = tl.reshape(exponent + 127, (DIMS // 32,))
    tl.store(out + DIMS // 2 + tl.arange(0, DIMS // 32), scales.to(tl.uint8))
