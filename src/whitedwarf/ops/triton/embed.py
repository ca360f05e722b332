"""Rows of a table in its blocks, by token ids: one program a row and 1024 of its columns."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.blocks import POINTERS, kernel_planes
from whitedwarf.ops.triton.dots import chunk_columns
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.specimen import Specimen
from whitedwarf.ops.triton.tiles import load_tile, spell_floats
from whitedwarf.ops.twins.planes import TorchWeight

_COLUMNS_AT_ONCE = 1024
_ROWS = block(1, 16)


@triton.jit(do_not_specialize=["n"])
def embed_kernel(planes, ids, out, n, KIND: tl.constexpr, COLUMNS: tl.constexpr, BK: tl.constexpr, R: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    held = tl.load(ids + rows, mask=rows < n, other=0)
    T: tl.constexpr = BK // chunk_columns(KIND)
    at = tl.program_id(1) * T + tl.arange(0, T)
    raw = load_tile(KIND, planes[0], planes[1], planes[2], held, at, COLUMNS)
    values = spell_floats(KIND, raw, planes[2], at)
    columns = tl.program_id(1) * BK + tl.arange(0, BK)
    tl.store(out + rows.to(tl.int64)[:, None] * COLUMNS + columns[None, :], values, mask=(rows < n)[:, None])


def embed(table: TorchWeight, ids: Tensor) -> Tensor:
    """Rows `ids` (n,) int32 of the (V, D) table -> (n, D)."""
    n, columns = len(ids), table.shape[1]
    at_once = min(_COLUMNS_AT_ONCE, columns & -columns)
    out = torch.empty((n, columns), dtype=torch.float32, device=ids.device)
    embed_kernel[(-(-n // _ROWS), columns // at_once)](
        kernel_planes(table),
        ids,
        out,
        n,
        KIND=int(table.type),
        COLUMNS=columns,
        BK=at_once,
        R=_ROWS,
        enable_fp_fusion=True,
    )
    return out


SPECIMENS = tuple(
    Specimen(
        f"embed {type.name}",
        embed_kernel,
        {"planes": POINTERS[type], "ids": "*i32", "out": "*fp32", "n": "i32"},
        {"KIND": int(type), "COLUMNS": 4096, "BK": 1024, "R": 1},
    )
    for type in (GgmlType.F16, GgmlType.Q8_0, GgmlType.Q4_K)
)
