"""Operands of tensor-core products: f32 numbers as one bf16, or as a sum of two (2^-16 of each number).

Triton's interpreter multiplies the bits of bf16 numbers as integers: there they stay f32, rounded alike.
"""

import triton
import triton.language as tl

from whitedwarf.ops.triton.interpretation import IS_INTERPRETED

STAY_F32 = tl.constexpr(IS_INTERPRETED)


@triton.jit
def rounded(x):
    """f32 -> the nearest bf16, ties to even."""
    if STAY_F32:
        bits = x.to(tl.int32, bitcast=True)
        result = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
    else:
        result = x.to(tl.bfloat16)
    return result


@triton.jit
def remainder(x, high):
    """What `rounded` left of f32 numbers, rounded itself."""
    return rounded(x - high.to(tl.float32))


@triton.jit
def operand(x):
    """What was loaded as bf16."""
    return x.to(tl.float32) if STAY_F32 else x
