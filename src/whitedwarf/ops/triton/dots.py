"""Rows of a weight in its blocks times few rows of x, piece by piece in registers.

A piece is `t` chunks of a row, one to a thread: as many columns as a type has in one load of 16 bytes (8 of IQ2_XXS).
`dot` gives (r, n, t): for each row of the weight and each row of x the products of each chunk, summed, in f32. Columns
are met four at a time, as a quad of x that a thread loads at once. All tensors are (r, t), (n, t) or (r, n, t), so that
the compiler has no reason to move anything between threads before the sum over t, which is the caller's.

x is used as it is, in f32; weights are exact. Where quants are made floats as 8 + q / 16 (bits.py), the 8 is taken off
again with the sum of the x of the chunk, which all rows share.
"""

import triton
import triton.language as tl

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.bits import SIGN_BITS, four_signed, four_sixteenths, high_half, low_half, quarters
from whitedwarf.ops.triton.blocks import BF16, F16, F32, MXFP4, Q2_K, Q4_K, Q8_0

CHUNK_COLUMNS = {
    GgmlType.F32: 4,
    GgmlType.F16: 8,
    GgmlType.BF16: 8,
    GgmlType.Q8_0: 16,
    GgmlType.MXFP4: 32,
    GgmlType.Q4_K: 32,
    GgmlType.Q2_K: 64,
    GgmlType.IQ2_XXS: 32,
}


@triton.constexpr_function
def chunk_columns(kind: int) -> int:
    """Columns of a chunk."""
    return CHUNK_COLUMNS[GgmlType(kind)]


@triton.jit
def dot(kind: tl.constexpr, a, b, c, rows, at, x, x_at, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    """rows (r,) of the weight, chunks at (t,) of a row, x_at (n,) where rows of x begin, mask (n,) -> (r, n, t)."""
    zero = tl.zeros([rows.shape[0], x_at.shape[0], at.shape[0]], tl.float32)
    zero_sum = tl.zeros([x_at.shape[0], at.shape[0]], tl.float32)
    xs = x + x_at[:, None]
    if kind == F32:
        return _f32(zero, a, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    elif kind == F16 or kind == BF16:
        return _halves(kind, zero, a, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    elif kind == Q8_0:
        return _q8_0(zero, a, b, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    elif kind == MXFP4:
        return _mxfp4(zero, a, b, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    elif kind == Q4_K:
        return _q4_k(zero, zero_sum, a, b, c, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    elif kind == Q2_K:
        return _q2_k(zero, zero_sum, a, b, c, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)
    else:
        return _iq2_xxs(zero, a, b, c, rows, at, xs, mask, norm, HAS_NORM, COLUMNS)


@triton.jit
def _quad(xs, columns, mask, norm, HAS_NORM: tl.constexpr):
    """Four columns of x, times the norm's weights: xs (n, 1), columns (t,) -> four (n, t)."""
    inner = tl.arange(0, 4)
    at = columns[None, :, None] + inner[None, None, :]
    values = tl.load(xs[:, :, None] + at, mask=mask[:, None, None], other=0.0)
    if HAS_NORM:
        values *= tl.load(norm + at)
    return quarters(values)


@triton.jit
def _add(total, w, x):
    """(r, n, t) + the products of four columns: w four (r, t), x four (n, t)."""
    for i in tl.static_range(4):
        total += w[i][:, None, :] * x[i][None, :, :]
    return total


@triton.jit
def _sum(x):
    return (x[0] + x[1]) + (x[2] + x[3])


@triton.jit
def four_words(a, chunks):
    """The four words of each chunk (r, t) -> four (r, t)."""
    return quarters(tl.load(a + chunks[:, :, None] * 4 + tl.arange(0, 4)[None, None, :]))


@triton.jit
def _f32(zero, a, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    w = four_words(a, rows[:, None] * (COLUMNS // 4) + at[None, :])
    return _add(zero, w, _quad(xs, at * 4, mask, norm, HAS_NORM))


@triton.jit
def _halves(kind: tl.constexpr, zero, a, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    w = four_words(a, rows[:, None] * (COLUMNS // 8) + at[None, :])
    total = zero
    for i in tl.static_range(2):
        low, high = w[2 * i], w[2 * i + 1]
        four = (low_of(kind, low), high_of(kind, low), low_of(kind, high), high_of(kind, high))
        total = _add(total, four, _quad(xs, at * 8 + 4 * i, mask, norm, HAS_NORM))
    return total


@triton.jit
def low_of(kind: tl.constexpr, words):
    """The first of two 16-bit floats of each word."""
    if kind == F16:
        return low_half(words)
    else:
        return (words << 16).to(tl.float32, bitcast=True)


@triton.jit
def high_of(kind: tl.constexpr, words):
    """The second one."""
    if kind == F16:
        return high_half(words)
    else:
        return (words & -0x10000).to(tl.float32, bitcast=True)


@triton.jit
def _q8_0(zero, a, b, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    chunks = rows[:, None] * (COLUMNS // 16) + at[None, :]
    w = four_words(a, chunks)
    scales = tl.load(b + chunks // 2).to(tl.float32)
    total = zero
    for i in tl.static_range(4):
        total = _add(total, four_signed(w[i]), _quad(xs, at * 16 + 4 * i, mask, norm, HAS_NORM))
    return total * scales[:, None, :]


@triton.jit
def _mxfp4(zero, a, b, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    chunks = rows[:, None] * (COLUMNS // 32) + at[None, :]
    w = four_words(a, chunks)
    scales = fp4_scales(tl.load(b + chunks))
    total = zero
    for i in tl.static_range(4):
        total = _add(total, fp4_low(w[i]), _quad(xs, at * 32 + 4 * i, mask, norm, HAS_NORM))
        total = _add(total, fp4_high(w[i]), _quad(xs, at * 32 + 16 + 4 * i, mask, norm, HAS_NORM))
    return total * scales[:, None, :]


@triton.jit
def fp4_low(words):
    """The low nibbles of the four bytes of each word, as 2^-14 of the values of their codes."""
    even, odd = _fp4_pair(words << 12, words << 9), _fp4_pair(words << 4, words << 1)
    return low_half(even), low_half(odd), high_half(even), high_half(odd)


@triton.jit
def fp4_high(words):
    """The same of the high nibbles."""
    even, odd = _fp4_pair(words << 8, words << 5), _fp4_pair(words, words >> 3)
    return low_half(even), low_half(odd), high_half(even), high_half(odd)


@triton.jit
def _fp4_pair(signs, magnitudes):
    """Two float16: a code's sign, exponent and mantissa bits where float16 has its sign and the low ones of those."""
    return (signs & SIGN_BITS) | (magnitudes & 0x0E000E00)


@triton.jit
def fp4_scales(exponents):
    """2^14 times the scales of e8m0 bytes: 2^(byte - 113)."""
    bytes = exponents.to(tl.int32)
    bits = tl.where(bytes >= 2, (bytes - 1) << 23, 0x200000 << bytes)  # 2^(byte - 128); the two smallest are denormal
    return bits.to(tl.float32, bitcast=True) * 32768.0


@triton.jit
def _q4_k(zero, zero_sum, a, b, c, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    # chunk 2 p + h of a block: columns 16 h .. of the groups 2 p (low nibbles) and 2 p + 1 (high ones)
    w = four_words(a, rows[:, None] * (COLUMNS // 32) + at[None, :])
    blocks = rows[:, None] * (COLUMNS // 256) + (at // 8)[None, :]
    halves = tl.load(c + blocks)
    small = tl.load(b + blocks * 3), tl.load(b + blocks * 3 + 1), tl.load(b + blocks * 3 + 2)
    columns = at // 2 * 64 + at % 2 * 16
    low, high, low_sum, high_sum = zero, zero, zero_sum, zero_sum
    for i in tl.static_range(4):
        x = _quad(xs, columns + 4 * i, mask, norm, HAS_NORM)
        low, low_sum = _add(low, four_sixteenths((w[i] << 3) & 0x78787878), x), low_sum + _sum(x)
        x = _quad(xs, columns + 32 + 4 * i, mask, norm, HAS_NORM)
        high, high_sum = _add(high, four_sixteenths((w[i] >> 1) & 0x78787878), x), high_sum + _sum(x)
    group = (at // 2 % 4 * 2)[None, :]
    scale, offset = q4_k_scales(small, halves, group)
    total = _affine(low, low_sum, 2.0 * scale, 16.0 * scale + offset)
    scale, offset = q4_k_scales(small, halves, group + 1)
    return total + _affine(high, high_sum, 2.0 * scale, 16.0 * scale + offset)


@triton.jit
def q4_k_scales(small, halves, group):
    """Scale and offset of a group 0..7 from the three words of small scales and the word of two float16."""
    shift = group % 4 * 8
    first, second, mixed = small[0] >> shift, small[1] >> shift, small[2] >> shift
    is_plain = group < 4
    scale = tl.where(is_plain, first & 63, (mixed & 15) | ((first >> 2) & 48))
    offset = tl.where(is_plain, second & 63, ((mixed >> 4) & 15) | ((second >> 2) & 48))
    return low_half(halves) * scale.to(tl.float32), high_half(halves) * offset.to(tl.float32)


@triton.jit
def _affine(total, sums, scale, offset):
    """scale * total - offset * sums: total (r, n, t), sums (n, t), scale and offset (r, t)."""
    return scale[:, None, :] * total - offset[:, None, :] * sums[None, :, :]


@triton.jit
def _q2_k(zero, zero_sum, a, b, c, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    # chunk 2 p + h: columns 16 h .. of four runs of 32, run j in bits 2 j and 2 j + 1
    w = four_words(a, rows[:, None] * (COLUMNS // 64) + at[None, :])
    blocks = rows[:, None] * (COLUMNS // 256) + (at // 4)[None, :]
    halves = tl.load(c + blocks)
    small = b + blocks * 4 + (at // 2 % 2 * 2)[None, :]
    pairs = q2_k_pairs(tl.load(small), tl.load(small + 1), at)
    columns = at // 2 * 128 + at % 2 * 16
    result = zero
    for j in tl.static_range(4):
        total, sums = zero, zero_sum
        for i in tl.static_range(4):
            x = _quad(xs, columns + 32 * j + 4 * i, mask, norm, HAS_NORM)
            moved = w[i] << (5 - 2 * j) if j < 3 else w[i] >> 1
            total, sums = _add(total, four_sixteenths(moved & 0x60606060), x), sums + _sum(x)
        scale, offset = q2_k_scales(pairs, halves, j)
        result += _affine(total, sums, 0.5 * scale, 4.0 * scale + offset)
    return result


@triton.jit
def q2_k_pairs(first, last, at):
    """Two words of small scales, moved so that bytes 0 and 2 are those of the runs of chunks at (t,)."""
    shift = (at % 2 * 8)[None, :]
    return first >> shift, last >> shift


@triton.jit
def q2_k_scales(pairs, halves, run: tl.constexpr):
    """Scale and offset of run 0..3 of each chunk."""
    byte = pairs[run // 2] >> (run % 2 * 16)
    return low_half(halves) * (byte & 15).to(tl.float32), high_half(halves) * ((byte >> 4) & 15).to(tl.float32)


@triton.jit
def _iq2_xxs(zero, a, b, c, rows, at, xs, mask, norm, HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr):
    chunks = rows[:, None] * (COLUMNS // 32) + at[None, :]
    codes, words = tl.split(tl.load(a + chunks[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]))
    scales = iq2_scales(tl.load(b + chunks // 8), words)
    firsts, lasts = grid_points(codes, c)
    parities = octet_parities(words)
    total = zero
    for i in tl.static_range(4):
        signs = octet_signs(words, parities, i)
        four = signed_halves(firsts[i], signs, 15)
        total = _add(total, four, _quad(xs, at * 32 + 8 * i, mask, norm, HAS_NORM))
        four = signed_halves(lasts[i], signs, 11)
        total = _add(total, four, _quad(xs, at * 32 + 8 * i + 4, mask, norm, HAS_NORM))
    return total * scales[:, None, :]


@triton.jit
def iq2_scales(scales, words):
    """The scale of a block times what the upper bits of each of its words make of it."""
    return scales.to(tl.float32) * (0.5 + ((words >> 28) & 15).to(tl.float32)) * 0.25


@triton.jit
def grid_points(codes, table):
    """Magnitudes of the four octets of codes (r, t): their first and their last four as float16, four int64 (r, t)."""
    size: tl.constexpr = codes.shape[0] * codes.shape[1] * 4
    even = tl.join(codes & 0xFF, (codes >> 16) & 0xFF)
    odd = tl.join((codes >> 8) & 0xFF, (codes >> 24) & 0xFF)
    indices = tl.reshape(tl.join(even, odd), [size])
    entries = tl.arange(0, 256)
    shape: tl.constexpr = [codes.shape[0], codes.shape[1], 4]
    firsts = tl.gather(tl.load(table + entries), indices, 0)
    lasts = tl.gather(tl.load(table + 256 + entries), indices, 0)
    return quarters(tl.reshape(firsts, shape)), quarters(tl.reshape(lasts, shape))


@triton.jit
def octet_parities(words):
    """At bits 0, 7, 14 and 21: whether the seven bits from there on have an odd number of ones."""
    threes = words ^ (words >> 1) ^ (words >> 2)
    return threes ^ (threes >> 3) ^ (words >> 6)


@triton.jit
def octet_signs(words, parities, index: tl.constexpr):
    """Eight signs of octet `index`: sign i at bit i and at bit 15 + i."""
    stored = (words >> (7 * index)) & 127
    last = ((parities >> (7 * index)) & 1) << 7
    return (stored | last) * 0x8001


@triton.jit
def signed_halves(four, signs, shift: tl.constexpr):
    """Four float16 of an int64, negative where signs say so, as floats."""
    first = four.to(tl.int32) ^ ((signs << shift) & SIGN_BITS)
    last = (four >> 32).to(tl.int32) ^ ((signs << (shift - 2)) & SIGN_BITS)
    return low_half(first), high_half(first), low_half(last), high_half(last)
