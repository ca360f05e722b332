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
    GgmlType.IQ2_XXS: 64,
}


@triton.constexpr_function
def chunk_columns(kind: int) -> int:
    """Columns of a chunk."""
    return CHUNK_COLUMNS[GgmlType(kind)]


@triton.jit
def dot(
    kind: tl.constexpr,
    planes,
    first_row,
    last_row,
    R: tl.constexpr,
    first,
    T: tl.constexpr,
    x,
    count,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    norm,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """(R, N, T): rows from first_row on, none behind last_row, times `count` rows of x that are STRIDE apart.

    Of chunks first .. first + T - 1; rows of x behind the count count as zeros.
    """
    zero = tl.zeros([R, N, T], tl.float32)
    zero_sum = tl.zeros([N, T], tl.float32)
    quads = (x, count, first, norm)
    if kind == F32:
        w = four_words(kind, planes[0], first_row, last_row, R, first, T, COLUMNS)
        result = _add(zero, w, _quad(kind, quads, 0, N, T, STRIDE, HAS_NORM))
    elif kind == F16 or kind == BF16:
        result = _halves(kind, zero, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    elif kind == Q8_0:
        result = _q8_0(kind, zero, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    elif kind == MXFP4:
        result = _mxfp4(kind, zero, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    elif kind == Q4_K:
        result = _q4_k(kind, zero, zero_sum, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    elif kind == Q2_K:
        result = _q2_k(kind, zero, zero_sum, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    else:
        result = _iq2_xxs(kind, zero, planes, first_row, last_row, quads, R, T, N, STRIDE, HAS_NORM, COLUMNS)
    return result


@triton.jit
def first_column(kind: tl.constexpr, at):
    """Where the columns of chunks begin: those of Q4_K and Q2_K take a half of 32 columns here and there."""
    if kind == Q4_K:
        return at // 2 * 64 + at % 2 * 16
    elif kind == Q2_K:
        return at // 2 * 128 + at % 2 * 16
    else:
        return at * chunk_columns(kind)


@triton.jit
def _quad(
    kind: tl.constexpr,
    quads,
    offset: tl.constexpr,
    N: tl.constexpr,
    T: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    """Four columns of x at an offset in each chunk, times the norm's weights -> four (N, T)."""
    x, count, first, norm = quads
    flat = tl.arange(0, N * T)
    columns = first_column(kind, first + flat % T)[:, None] + offset + tl.arange(0, 4)[None, :]
    values = tl.load(x + (flat // T * STRIDE)[:, None] + columns, mask=(flat // T < count)[:, None], other=0.0)
    if HAS_NORM:
        values *= tl.load(norm + columns)
    return quarters(tl.reshape(values, [N, T, 4]))


@triton.jit
def _add(total, w, x):
    """(r, n, t) + the products of four columns: w four (r, t), x four (n, t)."""
    for i in tl.static_range(4):
        total += w[i][:, None, :] * x[i][None, :, :]
    return total


@triton.jit
def _sum(x):
    return (x[0] + x[1]) + (x[2] + x[3])


# Loads are written so that their last axis alone is seen to be contiguous, or that they have one axis: where two axes
# look alike, older compilers take the first for the inner one, and move everything between threads.


@triton.jit
def four_words(
    kind: tl.constexpr, a, first_row, last_row, R: tl.constexpr, first, T: tl.constexpr, COLUMNS: tl.constexpr
):
    """The four words of each chunk -> four (R, T)."""
    rows = tl.minimum(first_row + tl.arange(0, R), last_row)
    at = rows[:, None] * (COLUMNS // chunk_columns(kind) * 4) + (first * 4 + tl.arange(0, 4 * T))[None, :]
    return quarters(tl.reshape(tl.load(a + at), [R, T, 4]))


@triton.jit
def small_part(
    plane,
    first_row,
    last_row,
    R: tl.constexpr,
    first,
    T: tl.constexpr,
    ROW: tl.constexpr,
    CHUNKS: tl.constexpr,
    STEP: tl.constexpr,
    OFFSET: tl.constexpr,
):
    """What chunks share, (R, T): element chunk // CHUNKS * STEP + OFFSET of rows of ROW elements."""
    flat = tl.arange(0, R * T)
    row = tl.minimum(first_row + flat // T, last_row)
    return tl.reshape(tl.load(plane + row * ROW + (first + flat % T) // CHUNKS * STEP + OFFSET), [R, T])


@triton.jit
def _halves(
    kind: tl.constexpr,
    zero,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    total = zero
    for i in tl.static_range(2):
        low, high = w[2 * i], w[2 * i + 1]
        four = (low_of(kind, low), high_of(kind, low), low_of(kind, high), high_of(kind, high))
        total = _add(total, four, _quad(kind, quads, 4 * i, N, T, STRIDE, HAS_NORM))
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
def _q8_0(
    kind: tl.constexpr,
    zero,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    scales = small_part(planes[1], first_row, last_row, R, quads[2], T, COLUMNS // 32, 2, 1, 0).to(tl.float32)
    total = zero
    for i in tl.static_range(4):
        total = _add(total, four_signed(w[i]), _quad(kind, quads, 4 * i, N, T, STRIDE, HAS_NORM))
    return total * scales[:, None, :]


@triton.jit
def _mxfp4(
    kind: tl.constexpr,
    zero,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    scales = fp4_scales(small_part(planes[1], first_row, last_row, R, quads[2], T, COLUMNS // 32, 1, 1, 0))
    total = zero
    for i in tl.static_range(4):
        total = _add(total, fp4_low(w[i]), _quad(kind, quads, 4 * i, N, T, STRIDE, HAS_NORM))
        total = _add(total, fp4_high(w[i]), _quad(kind, quads, 16 + 4 * i, N, T, STRIDE, HAS_NORM))
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
def _q4_k(
    kind: tl.constexpr,
    zero,
    zero_sum,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    # chunk 2 p + h of a block: columns 16 h .. of the groups 2 p (low nibbles) and 2 p + 1 (high ones)
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    small, halves = q4_k_small(planes, first_row, last_row, R, quads[2], T, COLUMNS)
    low, high, low_sum, high_sum = zero, zero, zero_sum, zero_sum
    for i in tl.static_range(4):
        x = _quad(kind, quads, 4 * i, N, T, STRIDE, HAS_NORM)
        low, low_sum = _add(low, four_sixteenths((w[i] << 3) & 0x78787878), x), low_sum + _sum(x)
        x = _quad(kind, quads, 32 + 4 * i, N, T, STRIDE, HAS_NORM)
        high, high_sum = _add(high, four_sixteenths((w[i] >> 1) & 0x78787878), x), high_sum + _sum(x)
    scale, offset = q4_k_scales(small, halves, quads[2], T, 0)
    total = _affine(low, low_sum, 2.0 * scale, 16.0 * scale + offset)
    scale, offset = q4_k_scales(small, halves, quads[2], T, 1)
    return total + _affine(high, high_sum, 2.0 * scale, 16.0 * scale + offset)


@triton.jit
def q4_k_small(planes, first_row, last_row, R: tl.constexpr, first, T: tl.constexpr, COLUMNS: tl.constexpr):
    """The three words of small scales and the word of two float16 of each chunk's block."""
    a = small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 256 * 3, 8, 3, 0)
    b = small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 256 * 3, 8, 3, 1)
    c = small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 256 * 3, 8, 3, 2)
    return (a, b, c), small_part(planes[2], first_row, last_row, R, first, T, COLUMNS // 256, 8, 1, 0)


@triton.jit
def q4_k_scales(small, halves, first, T: tl.constexpr, half: tl.constexpr):
    """Scale and offset of the groups of chunks: of the low nibbles (0) or the high ones (1)."""
    group = ((first + tl.arange(0, T)) // 2 % 4 * 2 + half)[None, :]
    shift = group % 4 * 8
    low, middle, mixed = small[0] >> shift, small[1] >> shift, small[2] >> shift
    is_plain = group < 4
    scale = tl.where(is_plain, low & 63, (mixed & 15) | ((low >> 2) & 48))
    offset = tl.where(is_plain, middle & 63, ((mixed >> 4) & 15) | ((middle >> 2) & 48))
    return low_half(halves) * scale.to(tl.float32), high_half(halves) * offset.to(tl.float32)


@triton.jit
def _affine(total, sums, scale, offset):
    """scale * total - offset * sums: total (r, n, t), sums (n, t), scale and offset (r, t)."""
    return scale[:, None, :] * total - offset[:, None, :] * sums[None, :, :]


@triton.jit
def _q2_k(
    kind: tl.constexpr,
    zero,
    zero_sum,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    # chunk 2 p + h: columns 16 h .. of four runs of 32, run j in bits 2 j and 2 j + 1
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    pairs, halves = q2_k_small(planes, first_row, last_row, R, quads[2], T, COLUMNS)
    result = zero
    for j in tl.static_range(4):
        total, sums = zero, zero_sum
        for i in tl.static_range(4):
            x = _quad(kind, quads, 32 * j + 4 * i, N, T, STRIDE, HAS_NORM)
            moved = w[i] << (5 - 2 * j) if j < 3 else w[i] >> 1
            total, sums = _add(total, four_sixteenths(moved & 0x60606060), x), sums + _sum(x)
        scale, offset = q2_k_scales(pairs, halves, j)
        result += _affine(total, sums, 0.5 * scale, 4.0 * scale + offset)
    return result


@triton.jit
def q2_k_small(planes, first_row, last_row, R: tl.constexpr, first, T: tl.constexpr, COLUMNS: tl.constexpr):
    """Two words of small scales, moved so that bytes 0 and 2 are the chunk's, and the word of two float16."""
    shift = ((first + tl.arange(0, T)) % 2 * 8)[None, :]
    a = small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 64, 2, 2, 0)
    b = small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 64, 2, 2, 1)
    return (a >> shift, b >> shift), small_part(planes[2], first_row, last_row, R, first, T, COLUMNS // 256, 4, 1, 0)


@triton.jit
def q2_k_scales(pairs, halves, run: tl.constexpr):
    """Scale and offset of run 0..3 of each chunk."""
    byte = pairs[run // 2] >> (run % 2 * 16)
    return low_half(halves) * (byte & 15).to(tl.float32), high_half(halves) * ((byte >> 4) & 15).to(tl.float32)


@triton.jit
def _iq2_xxs(
    kind: tl.constexpr,
    zero,
    planes,
    first_row,
    last_row,
    quads,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_NORM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    w = four_words(kind, planes[0], first_row, last_row, R, quads[2], T, COLUMNS)
    halves = small_part(planes[1], first_row, last_row, R, quads[2], T, COLUMNS // 256, 4, 1, 0)
    firsts, lasts = grid_points(w[0], w[2], planes[2])
    result = zero
    for pair in tl.static_range(2):
        words = w[2 * pair + 1]
        parities = octet_parities(words)
        total = zero
        for i in tl.static_range(4):
            signs = octet_signs(words, parities, i)
            four = signed_halves(firsts[pair][i], signs, 15)
            total = _add(total, four, _quad(kind, quads, 32 * pair + 8 * i, N, T, STRIDE, HAS_NORM))
            four = signed_halves(lasts[pair][i], signs, 11)
            total = _add(total, four, _quad(kind, quads, 32 * pair + 8 * i + 4, N, T, STRIDE, HAS_NORM))
        result += total * iq2_scales(halves, words)[:, None, :]
    return result


@triton.jit
def iq2_scales(scales, words):
    """The scale of a block times what the upper bits of each of its words make of it."""
    return scales.to(tl.float32) * (0.5 + ((words >> 28) & 15).to(tl.float32)) * 0.25


@triton.jit
def grid_points(first_codes, second_codes, table):
    """Magnitudes of the octets of two words of codes (r, t), as four float16 in an int64.

    The first four and the last four of each, by word and octet: two of two of four (r, t).
    """
    shape: tl.constexpr = [first_codes.shape[0], first_codes.shape[1], 4, 2]
    indices = tl.reshape(tl.join(_octet_codes(first_codes), _octet_codes(second_codes)), [shape[0] * shape[1] * 8])
    entries = tl.arange(0, 256)
    firsts = tl.reshape(tl.gather(tl.load(table + entries), indices, 0), shape)
    lasts = tl.reshape(tl.gather(tl.load(table + 256 + entries), indices, 0), shape)
    return _by_octet(firsts), _by_octet(lasts)


@triton.jit
def _octet_codes(codes):
    """(r, t) -> (r, t, 4)."""
    even = tl.join(codes & 0xFF, (codes >> 16) & 0xFF)
    odd = tl.join((codes >> 8) & 0xFF, (codes >> 24) & 0xFF)
    return tl.reshape(tl.join(even, odd), [codes.shape[0], codes.shape[1], 4])


@triton.jit
def _by_octet(points):
    """(r, t, 4, 2) -> two of four (r, t)."""
    first, second = tl.split(points)
    return quarters(first), quarters(second)


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
