"""Rows of a table in its blocks, by token ids: one program a row and 1024 of its columns."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.blocks import POINTERS, kernel_planes
from whitedwarf.ops.triton.dots import chunk_columns
from whitedwarf.ops.triton.specimen import Specimen
from whitedwarf.ops.triton.tiles import load_tile, spell_floats
from whitedwarf.ops.twins.planes import TorchWeight

_COLUMNS_AT_ONCE = 1024


@triton.jit
def embed_kernel(planes, ids, out, KIND: tl.constexpr, COLUMNS: tl.constexpr, BK: tl.constexpr):
    row, id = tl.program_id(0), tl.load(ids + tl.program_id(0))
    T: tl.constexpr = BK // chunk_columns(KIND)
    raw = load_tile(KIND, planes, id, id, 1, tl.program_id(1) * T, T, COLUMNS)
    values = spell_floats(KIND, raw, planes[2], tl.program_id(1) * T, T)
    columns = tl.program_id(1) * BK + tl.arange(0, BK)
    tl.store(out + row.to(tl.int64) * COLUMNS + columns[None, :], values)


def embed(table: TorchWeight, ids: Tensor) -> Tensor:
    """Rows `ids` (n,) int32 of the (V, D) table -> (n, D)."""
    n, columns = len(ids), table.shape[1]
    at_once = min(_COLUMNS_AT_ONCE, columns & -columns)
    out = torch.empty((n, columns), dtype=torch.float32, device=ids.device)
    sizes = {"KIND": int(table.type), "COLUMNS": columns, "BK": at_once}
    embed_kernel[(n, columns // at_once)](kernel_planes(table), ids, out, **sizes, enable_fp_fusion=True)
    return out


SPECIMENS = tuple(
    Specimen(
        f"embed {type.name}",
        embed_kernel,
        {"planes": POINTERS[type], "ids": "*i32", "out": "*fp32"},
        {"KIND": int(type), "COLUMNS": 4096, "BK": 1024},
    )
    for type in (GgmlType.F16, GgmlType.Q8_0, GgmlType.Q4_K)
)
