"""Rows of x made ready for tensor cores: an RMS norm if asked for, then bf16. One program a row."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.triton.interpretation import IS_INTERPRETED
from whitedwarf.ops.triton.operands import rounded
from whitedwarf.ops.triton.specimen import Specimen

OPERAND = torch.float32 if IS_INTERPRETED else torch.bfloat16  # operands.py says why
_BLOCK = tl.constexpr(1024)


@triton.jit
def rounded_rows_kernel(x, norm, out, epsilon, COLUMNS: tl.constexpr, HAS_NORM: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    factor = 1.0
    if HAS_NORM:
        squares = tl.zeros([_BLOCK], tl.float32)
        for first in tl.range(0, COLUMNS, _BLOCK):
            columns = first + tl.arange(0, _BLOCK)
            values = tl.load(x + row + columns, mask=columns < COLUMNS, other=0.0)
            squares += values * values
        factor = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / COLUMNS + epsilon)
    for first in tl.range(0, COLUMNS, _BLOCK):
        columns = first + tl.arange(0, _BLOCK)
        values = tl.load(x + row + columns, mask=columns < COLUMNS, other=0.0)
        if HAS_NORM:
            values *= factor * tl.load(norm + columns, mask=columns < COLUMNS, other=0.0)
        tl.store(out + row + columns, rounded(values), mask=columns < COLUMNS)


def rounded_rows(x: Tensor, norm: Tensor | None, epsilon: float) -> Tensor:
    """(n, columns) f32 -> the same in OPERAND, normed if there is a norm (columns,)."""
    out = torch.empty(x.shape, dtype=OPERAND, device=x.device)
    given = x if norm is None else norm
    has_norm = norm is not None
    rounded_rows_kernel[(len(x),)](x, given, out, epsilon, COLUMNS=x.shape[1], HAS_NORM=has_norm, enable_fp_fusion=True)
    return out


SPECIMENS = tuple(
    Specimen(
        f"rounded rows {'normed' if has_norm else 'plain'}",
        rounded_rows_kernel,
        {"x": "*fp32", "norm": "*fp32", "out": "*bf16", "epsilon": "fp32"},
        {"COLUMNS": 4096, "HAS_NORM": has_norm},
    )
    for has_norm in (False, True)
)
