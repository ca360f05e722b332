"""The operations over spans in Triton as a backend for the tests of spans: tables are made of torch buffers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import Pooling, RowFormat, Visible
from whitedwarf.ops.spans import SLACK_ROWS, Pool, store_of
from whitedwarf.ops.torch_ops import TorchMemory
from whitedwarf.ops.triton import attend, pick, pool
from whitedwarf.ops.triton.rows import index_query, kv_rows
from whitedwarf.ops.triton.span_table import NUM_STORES, SpanTable

MEMORY = TorchMemory(torch.device("cpu"))


@dataclass(frozen=True)
class TableSpans:
    parts: tuple[Any, ...]
    table: SpanTable


def table_of(parts: list[Any], ratios: tuple[int, ...]) -> SpanTable:
    starts = np.array([part.start for part in parts], np.int32)
    counts = np.array([part.num_tokens for part in parts], np.int32)
    ends = starts + counts
    closed = {r: np.cumsum([0, *(ends // r - starts // r)], dtype=np.int32) for r in ratios}
    bases = np.array([[_addresses(layer) for layer in part.state.layers] for part in parts], np.int64)
    return SpanTable(
        starts=on_device(starts),
        row_starts=on_device(np.cumsum([0, *counts], dtype=np.int32)),
        span_of_row=on_device(np.repeat(np.arange(len(parts), dtype=np.int32), counts)),
        bases=on_device(bases.transpose(1, 2, 0)),
        fresh=on_device(np.where(counts > SLACK_ROWS, starts, ends)),
        closed={ratio: on_device(count) for ratio, count in closed.items()},
        num_spans=len(parts),
        num_rows=int(counts.sum()),
        is_decode=bool((counts == 1).all()),
        longest=int(counts.max()),
    )


def _addresses(layer: Any) -> list[int]:
    addresses = [_address(layer.window.buffer, layer.window.first)]
    for store in (layer.compressor, layer.indexer):
        if store is None:
            addresses += [0, 0, 0]
        else:
            addresses += [_address(store.values.buffer, store.values.first)]
            addresses += [_address(store.gates.buffer, store.gates.first), _address(store.rows.buffer, 0)]
    assert len(addresses) == NUM_STORES
    return addresses


def _address(buffer: torch.Tensor, first: int) -> int:
    return buffer.data_ptr() - first * buffer.stride(0) * buffer.element_size()


class TableOps:
    """What tests/ops/test_cpu_spans.py asks of a backend, in numpy arrays."""

    def spans(self, parts: list[Any]) -> TableSpans:
        return TableSpans(tuple(parts), table_of(parts, (parts[0].state.ratio,)))

    def pool(self, spans, layer: int, pool_kind: Pool, values, gates, how: Pooling, turns) -> None:
        own = on_device(values), on_device(gates)
        parameters = map(on_device, (how.ape, how.norm, turns))
        store_base = 1 if pool_kind is Pool.ROWS else 4
        pool.pool(spans.table, layer, store_base, *own, *parameters, how.epsilon, how.ratio, how.format)
        for part in long_parts(spans):
            store = store_of(part.state.layers[layer], pool_kind)
            store.values.extend(part.start, own[0][part.rows])
            store.gates.extend(part.start, own[1][part.rows])

    def pick(self, spans, layer: int, queries, weights, format: RowFormat, counts, most: int, top: int):
        if most <= top:
            return None
        own = on_device(queries), on_device(weights), format, on_device(counts), most, top
        return from_device(pick.pick(spans.table, layer, *own))

    def attend(self, spans, layer: int, queries, rows, format: RowFormat, visible: Visible, sinks, turns):
        new = on_device(rows)
        seen = on_device(visible.positions), visible.window, on_device(visible.counts), on_device(visible.picked)
        rest = *seen, visible.most, on_device(sinks), on_device(turns)
        out = attend.attend(spans.table, layer, on_device(queries), new, format, *rest)
        for part in long_parts(spans):
            part.state.layers[layer].window.extend(part.start, new[part.rows])
        return from_device(out)

    def index_query(self, x, heads: int, turns, format: RowFormat):
        return from_device(index_query(on_device(x), heads, on_device(turns), format))

    def kv_rows(self, x, norm, turns, epsilon: float, format: RowFormat):
        return from_device(kv_rows(*map(on_device, (x, norm, turns)), epsilon, format))


def long_parts(spans: TableSpans) -> list[Any]:
    return [part for part in spans.parts if part.num_tokens > SLACK_ROWS]
