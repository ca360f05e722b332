"""Tiles of a weight in its blocks -> bf16 in registers, for tensor-core products.

`load_tile` fetches the raw words of a tile (r rows, `TILE_COLUMNS` columns), `spell` makes numbers of them: fetching
is apart so that the next tile can be on its way while this one is multiplied. As in dots.py a thread takes a chunk of a
row, and everything is (r, t) until the columns are put together in their order, which moves nothing between threads.
Values are right to one rounding of bf16.
"""

import triton
import triton.language as tl

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.bits import four_signed, four_sixteenths
from whitedwarf.ops.triton.blocks import BF16, F16, F32, IQ2_XXS, MXFP4, Q2_K, Q4_K, Q8_0
from whitedwarf.ops.triton.dots import (
    chunk_columns,
    four_words,
    fp4_high,
    fp4_low,
    fp4_scales,
    grid_points,
    high_of,
    iq2_scales,
    low_of,
    octet_parities,
    octet_signs,
    q2_k_scales,
    q2_k_small,
    q4_k_scales,
    q4_k_small,
    signed_halves,
    small_part,
)
from whitedwarf.ops.triton.operands import rounded

TILE_COLUMNS = {
    GgmlType.F32: 32,
    GgmlType.F16: 64,
    GgmlType.BF16: 64,
    GgmlType.Q8_0: 64,
    GgmlType.MXFP4: 64,
    GgmlType.Q4_K: 64,
    GgmlType.Q2_K: 128,
    GgmlType.IQ2_XXS: 128,
}


def tile_columns(columns: int, *types: GgmlType) -> int:
    """Columns of a step that suits all of the types and divides a row."""
    return min(max(TILE_COLUMNS[type] for type in types), columns & -columns)


@triton.jit
def load_tile(
    kind: tl.constexpr, planes, first_row, last_row, R: tl.constexpr, first, T: tl.constexpr, COLUMNS: tl.constexpr
):
    """Raw words of chunks first .. first + T - 1 of R rows, none behind last_row; `spell` understands it."""
    words = four_words(kind, planes[0], first_row, last_row, R, first, T, COLUMNS)
    if kind == Q8_0:
        return words, small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 32, 2, 1, 0)
    elif kind == MXFP4:
        return words, small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 32, 1, 1, 0)
    elif kind == Q4_K:
        small, halves = q4_k_small(planes, first_row, last_row, R, first, T, COLUMNS)
        return words, small, halves
    elif kind == Q2_K:
        pairs, halves = q2_k_small(planes, first_row, last_row, R, first, T, COLUMNS)
        return words, pairs, halves
    elif kind == IQ2_XXS:
        return words, small_part(planes[1], first_row, last_row, R, first, T, COLUMNS // 256, 4, 1, 0)
    else:
        return (words,)


@triton.jit
def tile_sums(
    kind: tl.constexpr,
    planes,
    first_row,
    last_row,
    x_at,
    mask,
    first,
    end,
    COLUMNS: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    """Rows of x at pointers x_at (BM, 1), none where not mask, times rows of a weight -> (BM, BN) f32.

    Over the steps first .. end of BK columns. IS_LEFT makes the weight the left operand: the right one may be small.
    """
    T: tl.constexpr = BK // chunk_columns(kind)
    STEPS: tl.constexpr = COLUMNS // BK
    ks = tl.arange(0, BK)
    total = tl.zeros([BN, BM] if IS_LEFT else [BM, BN], tl.float32)
    raw = load_tile(kind, planes, first_row, last_row, BN, first * T, T, COLUMNS)
    for step in tl.range(first, end):
        w = spell(kind, raw, planes[2], step * T, T)
        following = tl.minimum(step + 1, STEPS - 1)
        raw = load_tile(kind, planes, first_row, last_row, BN, following * T, T, COLUMNS)
        xs = tl.load(x_at + (step * BK + ks)[None, :], mask=mask, other=0.0)
        total = multiplied(xs, w, total, IS_LEFT)
    if IS_LEFT:
        total = tl.trans(total)
    return total


@triton.jit
def multiplied(xs, w, total, IS_LEFT: tl.constexpr):
    """total + xs (BM, BK) by w (BN, BK): (BN, BM) if IS_LEFT, or (BM, BN)."""
    if IS_LEFT:
        left, right = w, tl.trans(xs)
    else:
        left, right = xs, tl.trans(w)
    return tl.dot(left, right, total)


@triton.jit
def spell(kind: tl.constexpr, raw, table, first, T: tl.constexpr):
    """What `load_tile` fetched -> (r, columns) bf16, in the order of columns. `table` is IQ2_XXS's third plane."""
    return rounded(spell_floats(kind, raw, table, first, T))


@triton.jit
def spell_floats(kind: tl.constexpr, raw, table, first, T: tl.constexpr):
    """The same in f32."""
    if kind == F32:
        values = _four(raw[0])
    elif kind == F16 or kind == BF16:
        values = _spell_halves(kind, raw[0])
    elif kind == Q8_0:
        w, scales = raw[0], raw[1].to(tl.float32)[:, :, None]
        values = _sixteen(four_signed(w[0]), four_signed(w[1]), four_signed(w[2]), four_signed(w[3])) * scales
    elif kind == MXFP4:
        values = _spell_mxfp4(raw[0], raw[1])
    elif kind == Q4_K:
        values = _spell_q4_k(raw[0], raw[1], raw[2], first, T)
    elif kind == Q2_K:
        values = _spell_q2_k(raw[0], raw[1], raw[2])
    else:
        values = _spell_iq2_xxs(raw[0], raw[1], table)
    return tl.reshape(values, [values.shape[0], values.numel // values.shape[0]])


@triton.jit
def _four(x):
    """Four (...) -> (..., 4)."""
    even, odd = tl.join(x[0], x[2]), tl.join(x[1], x[3])
    pairs = tl.join(even, odd)
    if len(pairs.shape) == 4:
        return tl.reshape(pairs, [pairs.shape[0], pairs.shape[1], 4])
    else:
        return tl.reshape(pairs, [pairs.shape[0], pairs.shape[1], pairs.shape[2], 4])


@triton.jit
def _sixteen(a, b, c, d):
    """Four quads, each four (r, t) -> (r, t, 16)."""
    first, second = _four((a[0], b[0], c[0], d[0])), _four((a[1], b[1], c[1], d[1]))
    third, fourth = _four((a[2], b[2], c[2], d[2])), _four((a[3], b[3], c[3], d[3]))
    all = _four((first, second, third, fourth))
    return tl.reshape(all, [all.shape[0], all.shape[1], 16])


@triton.jit
def _spell_halves(kind: tl.constexpr, w):
    first, second = tl.join(low_of(kind, w[0]), low_of(kind, w[2])), tl.join(high_of(kind, w[0]), high_of(kind, w[2]))
    third, fourth = tl.join(low_of(kind, w[1]), low_of(kind, w[3])), tl.join(high_of(kind, w[1]), high_of(kind, w[3]))
    return _four((first, second, third, fourth))  # (r, t, 2, 4)


@triton.jit
def _spell_mxfp4(w, exponents):
    low = _sixteen(fp4_low(w[0]), fp4_low(w[1]), fp4_low(w[2]), fp4_low(w[3]))
    high = _sixteen(fp4_high(w[0]), fp4_high(w[1]), fp4_high(w[2]), fp4_high(w[3]))
    scales = fp4_scales(exponents)[:, :, None]
    return tl.permute(tl.join(low * scales, high * scales), [0, 1, 3, 2])


@triton.jit
def _spell_q4_k(w, small, halves, first, T: tl.constexpr):
    low = _affine_sixteen(w, 3, 0x78787878, q4_k_scales(small, halves, first, T, 0), 2.0, 16.0)
    high = _affine_sixteen(w, -1, 0x78787878, q4_k_scales(small, halves, first, T, 1), 2.0, 16.0)
    both = tl.reshape(tl.join(low, high), [low.shape[0], low.shape[1] // 2, 2, 16, 2])
    return tl.permute(both, [0, 1, 4, 2, 3])


@triton.jit
def _spell_q2_k(w, pairs, halves):
    first = _affine_sixteen(w, 5, 0x60606060, q2_k_scales(pairs, halves, 0), 0.5, 4.0)
    second = _affine_sixteen(w, 3, 0x60606060, q2_k_scales(pairs, halves, 1), 0.5, 4.0)
    third = _affine_sixteen(w, 1, 0x60606060, q2_k_scales(pairs, halves, 2), 0.5, 4.0)
    fourth = _affine_sixteen(w, -1, 0x60606060, q2_k_scales(pairs, halves, 3), 0.5, 4.0)
    runs = _four((first, second, third, fourth))
    runs = tl.reshape(runs, [first.shape[0], first.shape[1] // 2, 2, 16, 4])
    return tl.permute(runs, [0, 1, 4, 2, 3])


@triton.jit
def _affine_sixteen(w, shift: tl.constexpr, MASK: tl.constexpr, scales, FACTOR: tl.constexpr, EIGHT: tl.constexpr):
    """Quants under a mask of the words, moved up by `shift` -> (r, t, 16) values.

    FACTOR takes a sixteenth of a moved byte to a quant, and EIGHT is what the 8 of `four_sixteenths` comes to.
    """
    a, b = four_sixteenths(_moved(w[0], shift) & MASK), four_sixteenths(_moved(w[1], shift) & MASK)
    c, d = four_sixteenths(_moved(w[2], shift) & MASK), four_sixteenths(_moved(w[3], shift) & MASK)
    scale, offset = scales
    return _sixteen(a, b, c, d) * (FACTOR * scale)[:, :, None] - (EIGHT * scale + offset)[:, :, None]


@triton.jit
def _moved(words, shift: tl.constexpr):
    if shift > 0:
        return words << shift
    else:
        return words >> -shift


@triton.jit
def _spell_iq2_xxs(w, halves, table):
    firsts, lasts = grid_points(w[0], w[2], table)
    first = _spell_word(firsts[0], lasts[0], w[1], halves)
    second = _spell_word(firsts[1], lasts[1], w[3], halves)  # (r, t, 2, 16)
    return tl.permute(tl.join(first, second), [0, 1, 4, 2, 3])


@triton.jit
def _spell_word(firsts, lasts, words, halves):
    parities = octet_parities(words)
    low = _two_octets(firsts[0], lasts[0], firsts[1], lasts[1], words, parities, 0)
    high = _two_octets(firsts[2], lasts[2], firsts[3], lasts[3], words, parities, 2)
    scales = iq2_scales(halves, words)[:, :, None]
    return tl.permute(tl.join(low * scales, high * scales), [0, 1, 3, 2])


@triton.jit
def _two_octets(a, b, c, d, words, parities, index: tl.constexpr):
    signs, more = octet_signs(words, parities, index), octet_signs(words, parities, index + 1)
    first, second = signed_halves(a, signs, 15), signed_halves(b, signs, 11)
    return _sixteen(first, second, signed_halves(c, more, 15), signed_halves(d, more, 11))
