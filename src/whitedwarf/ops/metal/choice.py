"""Which functions compute the operations that have a Metal kernel: the kernels', or their twins'."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from whitedwarf.ops.metal import attention as metal_attention
from whitedwarf.ops.metal import experts as metal_experts
from whitedwarf.ops.metal import hyper as metal_hyper
from whitedwarf.ops.metal import index as metal_index
from whitedwarf.ops.metal import pool as metal_pool
from whitedwarf.ops.metal import products as metal_products
from whitedwarf.ops.metal import route as metal_route
from whitedwarf.ops.metal import rows as metal_rows
from whitedwarf.ops.mlx_twins import attention, experts, hyper, index, pool, products, route, rows

Compute = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Kernels:
    """One function each; the twins say what they take and give."""

    embed: Compute = products.embed
    linear: Compute = products.linear
    grouped_linear: Compute = products.grouped_linear
    hyper_in: Compute = hyper.hyper_in
    hyper_out: Compute = hyper.hyper_out
    hyper_head: Compute = hyper.hyper_head
    routed_experts: Compute = experts.routed
    shared_expert: Compute = experts.shared
    attention: Compute = attention.attention
    rms_norm: Compute = rows.rms_norm
    query: Compute = rows.query
    kv_rows: Compute = rows.kv_rows
    index_query: Compute = rows.index_query
    compress: Compute = pool.compress
    index_pick: Compute = index.index_pick
    route: Compute = route.route


TWINS = Kernels()
METAL = Kernels(
    linear=metal_products.linear,
    grouped_linear=metal_products.grouped_linear,
    routed_experts=metal_experts.routed,
    shared_expert=metal_experts.shared,
    attention=metal_attention.attention,
    hyper_in=metal_hyper.hyper_in,
    hyper_out=metal_hyper.hyper_out,
    hyper_head=metal_hyper.hyper_head,
    rms_norm=mx.fast.rms_norm,
    query=metal_rows.query,
    kv_rows=metal_rows.kv_rows,
    index_query=metal_rows.index_query,
    compress=metal_pool.compress,
    index_pick=metal_index.index_pick,
    route=metal_route.route,
)


def here() -> Kernels:
    """The kernels where Metal is available, else the twins."""
    return METAL if mx.metal.is_available() else TWINS
