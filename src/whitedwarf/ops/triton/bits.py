"""Bits of 32-bit words as numbers: the small device functions under blocks.py.

Every one has a way with NVIDIA's byte permutation (`prmt`, one instruction), and a plain way for other machines and for
the interpreter; both give the same bits. Converting integers to floats is slow on NVIDIA's machines, so bytes are put
into the mantissa of a float whose exponent makes them whole numbers or sixteenths.
"""

from typing import Any

import triton
import triton.language as tl
from triton.language import core

from whitedwarf.ops.triton.interpretation import IS_INTERPRETED

IS_PLAIN = tl.constexpr(IS_INTERPRETED)  # which knows no instructions
SIGN_BITS = tl.constexpr(-0x7FFF8000)  # of two float16 in a word: 0x80008000
UNSIGNED = tl.constexpr(-0x7F7F7F80)  # 0x80808080: turns signed bytes into bytes that are 128 more
TWO_TO_23_128 = tl.constexpr(8388608.0 + 128.0)


@core.builtin
def has_byte_permutation(_semantic: Any = None) -> Any:
    """Whether the kernel is compiled for an NVIDIA device."""
    options = getattr(_semantic.builder, "options", None)
    return tl.constexpr(getattr(options, "backend_name", "") == "cuda")


@triton.jit
def byte_as_whole(words, index: tl.constexpr):
    """2^23 + byte `index` of each word, exactly."""
    if IS_PLAIN:
        bits = ((words >> (8 * index)) & 0xFF) | 0x4B000000
    elif has_byte_permutation():
        if index == 0:
            bits = _permuted(words, 0x4B000000, "0x7540")
        elif index == 1:
            bits = _permuted(words, 0x4B000000, "0x7541")
        elif index == 2:
            bits = _permuted(words, 0x4B000000, "0x7542")
        else:
            bits = _permuted(words, 0x4B000000, "0x7543")
    else:
        bits = ((words >> (8 * index)) & 0xFF) | 0x4B000000
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def byte_as_sixteenths(words, index: tl.constexpr):
    """8 + byte / 16 of byte `index` of each word, exactly, for bytes below 128."""
    if IS_PLAIN:
        bits = (((words >> (8 * index)) & 0x7F) << 16) | 0x41000000
    elif has_byte_permutation():
        if index == 0:
            bits = _permuted(words, 0x41000000, "0x7044")
        elif index == 1:
            bits = _permuted(words, 0x41000000, "0x7144")
        elif index == 2:
            bits = _permuted(words, 0x41000000, "0x7244")
        else:
            bits = _permuted(words, 0x41000000, "0x7344")
    else:
        bits = (((words >> (8 * index)) & 0x7F) << 16) | 0x41000000
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _permuted(words, others: tl.constexpr, selector: tl.constexpr):
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, " + selector + ";", "=r,r,r", [words, others], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def four_signed(words):
    """The four signed bytes of each word as floats."""
    flipped = words ^ UNSIGNED
    first, second = byte_as_whole(flipped, 0) - TWO_TO_23_128, byte_as_whole(flipped, 1) - TWO_TO_23_128
    return first, second, byte_as_whole(flipped, 2) - TWO_TO_23_128, byte_as_whole(flipped, 3) - TWO_TO_23_128


@triton.jit
def four_sixteenths(words):
    """8 + byte / 16 of the four bytes, all below 128, of each word."""
    first, second = byte_as_sixteenths(words, 0), byte_as_sixteenths(words, 1)
    return first, second, byte_as_sixteenths(words, 2), byte_as_sixteenths(words, 3)


@triton.jit
def quarters(words):
    """(a, b, 4) -> four (a, b), in order."""
    even, odd = tl.split(tl.reshape(words, [words.shape[0], words.shape[1], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def low_half(words):
    """The float16 in the low half of each word."""
    return (words & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def high_half(words):
    """The float16 in the high half of each word."""
    return (words >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
