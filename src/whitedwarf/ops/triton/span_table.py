"""Where the rows of a pass's sequences lie, as tables on the device, so that kernels find them without the host.

Every sequence keeps its rows in buffers of its own; kernels reach them by address. A captured graph of a decode can be
replayed with other sequences: only the tables' contents change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

NUM_STORES = 7
WINDOW, ROW_VALUES, ROW_GATES, ROWS, KEY_VALUES, KEY_GATES, KEYS = range(NUM_STORES)


@dataclass(frozen=True, slots=True)
class SpanTable:
    """The spans of a pass. Positions and counts are int32, addresses int64, all tensors on the device.

    New rows of a pass are read from the batch's own arrays (row_starts says where), older ones from the stores. Kernels
    put the new rows of a span into its stores if its `fresh` lies beyond its start; those of the others, which are too
    long for that, the host does afterwards. Pooled rows are stored by kernels always.
    """

    starts: Tensor  # (spans,): position of a span's first new token
    row_starts: Tensor  # (spans + 1,): its rows in the batch
    span_of_row: Tensor  # (n,)
    bases: Tensor  # (layers, 7, spans): address that row 0 would have in each of a layer's stores; 0 = no such store
    fresh: Tensor  # (spans,): the end of a span whose new rows kernels store; its start where the host does
    closed: Mapping[int, Tensor]  # by ratio, (spans + 1,): windows that close in the pass before a span's own
    num_spans: int
    num_rows: int
    is_decode: bool  # every span is one row
    longest: int  # rows of the longest span

    def place(self, layer: int, store: int) -> int:
        """Of a store's addresses in `bases`, seen as a flat array."""
        return (layer * NUM_STORES + store) * self.num_spans


@triton.jit
def row_address(batch, store, position, start, first_row, ROW_BYTES: tl.constexpr):
    """Address of a row of a span: in the batch's array from `start` on, else in the store."""
    new = batch.to(tl.int64) + (first_row + position - start).to(tl.int64) * ROW_BYTES
    return tl.where(position >= start, new, store + position.to(tl.int64) * ROW_BYTES)
