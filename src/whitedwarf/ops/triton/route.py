"""The router (fact sheet 2.6): logits in one launch, the choice of experts and their weights in a second.

The first cuts D into chunks and the experts into blocks; the second adds the chunks up in order and finds the best by
num_used searches for the largest, in one warp. Twin: `route` of ops/twins/route.py after a product.

A row's result does not depend on other rows; fewer than FEW_ROWS are multiplied as f32, more in tensor cores as sums
of two bf16 each.

Flash, H200 at 4.3 TB/s. 256 x 4096 weights: 4 MiB as f32 (1 us), 2 MiB as f16, over 256 programs for one row; each
launch about 2 us. 32 rows: 3 us and 2 us. 2048 rows: 3 x 2.1 G multiply-adds, 40 us;
parts 16 MiB written and read, 8 us.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.reference import WEIGHT_SUM_FLOOR
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.operands import remainder, rounded
from whitedwarf.ops.triton.specimen import Specimen

FEW_ROWS = 16  # fewer are cut so that one row still uses all of the device
SUM_FLOOR = tl.constexpr(WEIGHT_SUM_FLOOR)


def route(
    x: Tensor,
    gate: Tensor,
    bias: Tensor | None,
    table: Tensor | None,
    ids: Tensor,
    num_used: int,
    scale: float,
    normalise: bool,
) -> tuple[Tensor, Tensor]:
    """(n, D), gate (E, D) f32 or f16 -> experts (n, k) int32 and their weights (n, k): see the twin."""
    n, num_experts = len(x), len(gate)
    parts = _logit_parts(x, gate)
    experts = torch.empty((n, num_used), dtype=torch.int32, device=x.device)
    shares = torch.empty((n, num_used), dtype=torch.float32, device=x.device)
    constants = {
        "EXPERTS": num_experts,
        "EXPERTS_WIDTH": triton.next_power_of_2(num_experts),
        "CHUNKS": len(parts),
        "USED": num_used,
        "USED_WIDTH": triton.next_power_of_2(num_used),
        "HAS_BIAS": bias is not None,
        "HAS_TABLE": table is not None,
        "NORMALISE": normalise,
    }
    own_bias, own_table = parts if bias is None else bias, ids if table is None else table
    _choose[(n,)](parts, own_bias, own_table, ids, experts, shares, scale, **constants, num_warps=1)
    return experts, shares


def _logit_parts(x: Tensor, gate: Tensor) -> Tensor:
    """(chunks, n, E): what each chunk of D adds to the logits."""
    (n, width), num_experts = x.shape, len(gate)
    chunk = block(1024 if n < FEW_ROWS else 512, 1024)
    chunks = triton.cdiv(width, chunk)
    parts = torch.empty((chunks, n, num_experts), dtype=torch.float32, device=x.device)
    sizes = {"EXPERTS": num_experts, "DIMS": width, "CHUNK": chunk}
    if n < FEW_ROWS:
        rows, own = (1 if n == 1 else 4), block(4, 32)
        grid = (triton.cdiv(num_experts, own), chunks, triton.cdiv(n, rows))
        _few_logits[grid](x, gate, parts, n, **sizes, OWN=own, ROWS=rows, num_warps=4)
    else:
        grid = (triton.cdiv(num_experts, 64), chunks, triton.cdiv(n, 64))
        _many_logits[grid](x, gate, parts, n, **sizes, STEP=64, num_warps=4)
    return parts


@triton.jit(do_not_specialize=["n"])
def _few_logits(
    x,
    gate,
    parts,
    n,
    EXPERTS: tl.constexpr,
    DIMS: tl.constexpr,
    CHUNK: tl.constexpr,
    OWN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """OWN experts and a chunk of ROWS rows, in f32."""
    expert = tl.program_id(0) * OWN + tl.arange(0, OWN)
    dims = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    is_weight = (expert[:, None] < EXPERTS) & (dims[None, :] < DIMS)
    weights = tl.load(gate + expert[:, None] * DIMS + dims[None, :], mask=is_weight, other=0.0).to(tl.float32)
    for i in tl.static_range(ROWS):
        row = (tl.program_id(2) * ROWS + i).to(tl.int64)
        values = tl.load(x + row * DIMS + dims, mask=dims < tl.where(row < n, DIMS, 0), other=0.0)
        place = (tl.program_id(1) * n + row) * EXPERTS + expert
        products = tl.sum(weights * values[None, :], axis=1)
        tl.store(parts + place, products, mask=expert < tl.where(row < n, EXPERTS, 0))


@triton.jit(do_not_specialize=["n"])
def _many_logits(
    x,
    gate,
    parts,
    n,
    EXPERTS: tl.constexpr,
    DIMS: tl.constexpr,
    CHUNK: tl.constexpr,
    STEP: tl.constexpr,
):
    """64 experts and a chunk of 64 rows, in tensor cores: each number as a sum of two bf16 (2^-16 of each product)."""
    expert = tl.program_id(0) * 64 + tl.arange(0, 64)
    row = (tl.program_id(2) * 64 + tl.arange(0, 64)).to(tl.int64)
    logits = tl.zeros((64, 64), tl.float32)
    for start in range(0, CHUNK, STEP):
        dims = tl.program_id(1) * CHUNK + start + tl.arange(0, STEP)
        is_value = (row[:, None] < n) & (dims[None, :] < DIMS)
        is_weight = (expert[None, :] < EXPERTS) & (dims[:, None] < DIMS)
        value = tl.load(x + row[:, None] * DIMS + dims[None, :], mask=is_value, other=0.0)
        weight = tl.load(gate + expert[None, :] * DIMS + dims[:, None], mask=is_weight, other=0.0).to(tl.float32)
        high, weight_high = rounded(value), rounded(weight)
        low, weight_low = remainder(value, high), remainder(weight, weight_high)
        logits = tl.dot(low, weight_high, logits)
        logits = tl.dot(high, weight_low, logits)
        logits = tl.dot(high, weight_high, logits)
    place = (tl.program_id(1) * n + row[:, None]) * EXPERTS + expert[None, :]
    tl.store(parts + place, logits, mask=(row[:, None] < n) & (expert[None, :] < EXPERTS))


@triton.jit
def _choose(
    parts,
    bias,
    table,
    ids,
    experts,
    shares,
    scale,
    EXPERTS: tl.constexpr,
    EXPERTS_WIDTH: tl.constexpr,
    CHUNKS: tl.constexpr,
    USED: tl.constexpr,
    USED_WIDTH: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_TABLE: tl.constexpr,
    NORMALISE: tl.constexpr,
):
    """A row."""
    row, expert = tl.program_id(0).to(tl.int64), tl.arange(0, EXPERTS_WIDTH)
    is_expert, n = expert < EXPERTS, tl.num_programs(0)
    logits = tl.zeros((EXPERTS_WIDTH,), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        logits += tl.load(parts + (chunk * n + row) * EXPERTS + expert, mask=is_expert, other=0.0)
    scores = tl.sqrt(softplus(logits))
    ranks = scores
    if HAS_BIAS:
        ranks += tl.load(bias + expert, mask=is_expert, other=0.0)
    ranks = tl.where(is_expert, ranks, float("-inf"))
    place = tl.arange(0, USED_WIDTH)
    chosen, shared = tl.zeros((USED_WIDTH,), tl.int32), tl.zeros((USED_WIDTH,), tl.float32)
    for i in tl.static_range(USED):
        if HAS_TABLE:
            best = tl.load(table + tl.load(ids + row).to(tl.int64) * USED + i)
        else:
            found = tl.where(ranks == tl.max(ranks, axis=0), expert, EXPERTS - 1)  # NaN: nobody; stay among the experts
            best = tl.min(found, axis=0)
            ranks = tl.where(expert == best, float("-inf"), ranks)
        chosen = tl.where(place == i, best, chosen)
        shared = tl.where(place == i, tl.sum(tl.where(expert == best, scores, 0.0), axis=0), shared)
    if NORMALISE:
        shared /= tl.maximum(tl.sum(shared, axis=0), SUM_FLOOR)
    tl.store(experts + row * USED + place, chosen, mask=place < USED)
    tl.store(shares + row * USED + place, shared * scale, mask=place < USED)


@triton.jit
def softplus(x):
    """log(1 + exp(x)): the logarithm as a series, because log(1 + e) knows nothing of a small e."""
    e = tl.exp(-tl.abs(x))
    s = e / (2 + e)
    square = s * s
    series = 1 / 15.0
    for i in tl.static_range(7):
        series = series * square + 1 / (13.0 - 2 * i)
    return tl.maximum(x, 0.0) + 2 * s * series


_LOGITS = {"x": "*fp32", "parts": "*fp32", "n": "i32"}
_CHOICE = dict.fromkeys(("parts", "bias", "shares"), "*fp32") | dict.fromkeys(("table", "ids", "experts"), "*i32")
_CHOICE |= {"scale": "fp32"}
_SIZES = {"EXPERTS": 256, "DIMS": 4096}
_USED = {"EXPERTS": 256, "EXPERTS_WIDTH": 256, "USED": 6, "USED_WIDTH": 8, "NORMALISE": True}
_BIAS, _TABLE = {"HAS_BIAS": True, "HAS_TABLE": False}, {"HAS_BIAS": False, "HAS_TABLE": True}
_FEW = _SIZES | {"CHUNK": 1024, "OWN": 4}
SPECIMENS = (
    Specimen("route logits n1 f32", _few_logits, _LOGITS | {"gate": "*fp32"}, _FEW | {"ROWS": 1}),
    Specimen("route logits n15 f16", _few_logits, _LOGITS | {"gate": "*fp16"}, _FEW | {"ROWS": 4}),
    Specimen("route logits many", _many_logits, _LOGITS | {"gate": "*fp32"}, _SIZES | {"CHUNK": 512, "STEP": 64}),
    Specimen("route choose few", _choose, _CHOICE, _USED | _BIAS | {"CHUNKS": 4}, num_warps=1),
    Specimen("route choose many", _choose, _CHOICE, _USED | _BIAS | {"CHUNKS": 8}, num_warps=1),
    Specimen("route table", _choose, _CHOICE, _USED | _TABLE | {"CHUNKS": 4}, num_warps=1),
)
