"""The best token of each row of logits, in two launches: the best of each piece, then the best of those."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.triton.specimen import Specimen

PIECE = 4096
_NO_ID = tl.constexpr(0x7FFFFFFF)


@triton.jit
def best_of_pieces_kernel(logits, values, ids, width, pieces, PIECE: tl.constexpr):
    row, piece = tl.program_id(0), tl.program_id(1)
    columns = piece * PIECE + tl.arange(0, PIECE)
    here = tl.load(logits + row.to(tl.int64) * width + columns, mask=columns < width, other=-float("inf"))
    best = tl.max(here, axis=0)
    tl.store(values + row * pieces + piece, best)
    tl.store(ids + row * pieces + piece, tl.min(tl.where(here == best, columns, _NO_ID), axis=0))


@triton.jit
def best_of_best_kernel(values, ids, out, pieces, PIECES: tl.constexpr):
    row = tl.program_id(0)
    own = tl.arange(0, PIECES)
    here = tl.load(values + row * pieces + own, mask=own < pieces, other=-float("inf"))
    candidates = tl.load(ids + row * pieces + own, mask=own < pieces, other=_NO_ID)
    tl.store(out + row, tl.min(tl.where(here == tl.max(here, axis=0), candidates, _NO_ID), axis=0))


def best_ids(logits: Tensor) -> Tensor:
    """The id of the largest logit of each row (n, V) -> (n,) int32; the lowest among equals."""
    n, width = logits.shape
    pieces = -(-width // PIECE)
    values = torch.empty((n, pieces), dtype=torch.float32, device=logits.device)
    ids = torch.empty((n, pieces), dtype=torch.int32, device=logits.device)
    out = torch.empty(n, dtype=torch.int32, device=logits.device)
    best_of_pieces_kernel[(n, pieces)](logits, values, ids, width, pieces, PIECE=PIECE)
    best_of_best_kernel[(n,)](values, ids, out, pieces, PIECES=triton.next_power_of_2(pieces), num_warps=1)
    return out


SPECIMENS = (
    Specimen(
        "best of pieces",
        best_of_pieces_kernel,
        {"logits": "*fp32", "values": "*fp32", "ids": "*i32", "width": "i32", "pieces": "i32"},
        {"PIECE": PIECE},
        divisible=frozenset({"width"}),
    ),
    Specimen(
        "best of best",
        best_of_best_kernel,
        {"values": "*fp32", "ids": "*i32", "out": "*i32", "pieces": "i32"},
        {"PIECES": 32},
        num_warps=1,
    ),
)
