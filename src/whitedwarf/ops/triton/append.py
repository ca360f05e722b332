"""New rows of a pass into the stores of their sequences, for spans whose rows the host does not store itself.

A copy: 64 rows of 1024 f32 are 256 KiB, a launch's 2 us. Decodes need no such launch: `pool` and `attend` store the one
new row of each sequence themselves.
"""

import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.triton.span_table import SpanTable
from whitedwarf.ops.triton.specimen import Specimen


def append(table: SpanTable, layer: int, store: int, rows: Tensor) -> None:
    """Put each of rows (n, width), bytes or f32, at its place in `store` (see span_table.py)."""
    width = rows.shape[1]
    sizes = {"WIDTH": width, "BLOCK": triton.next_power_of_2(width), "ITEM_BYTES": rows.element_size()}
    tables = table.starts, table.row_starts, table.span_of_row, table.fresh, table.bases
    _append[(table.num_rows,)](rows, *tables, table.place(layer, store), **sizes, num_warps=4)


@triton.jit(do_not_specialize=["place"])
def _append(
    rows,
    starts,
    row_starts,
    span_of_row,
    fresh,
    bases,
    place,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ITEM_BYTES: tl.constexpr,
):
    """A row."""
    row = tl.program_id(0)
    span = tl.load(span_of_row + row)
    start = tl.load(starts + span)
    position = start + row - tl.load(row_starts + span)
    if position < tl.load(fresh + span):
        column = tl.arange(0, BLOCK)
        base = tl.load(bases + place + span) + position.to(tl.int64) * (WIDTH * ITEM_BYTES)
        values = tl.load(rows + row.to(tl.int64) * WIDTH + column, mask=column < WIDTH)
        tl.store(base.to(rows.dtype) + column, values, mask=column < WIDTH)


_TABLES = dict.fromkeys(("starts", "row_starts", "span_of_row", "fresh"), "*i32") | {"bases": "*i64", "place": "i32"}
SPECIMENS = (
    Specimen("append f32", _append, {"rows": "*fp32"} | _TABLES, {"WIDTH": 1024, "BLOCK": 1024, "ITEM_BYTES": 4}),
    Specimen("append bytes", _append, {"rows": "*u8"} | _TABLES, {"WIDTH": 711, "BLOCK": 1024, "ITEM_BYTES": 1}),
)
