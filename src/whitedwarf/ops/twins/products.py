"""Products with weights in their GGUF blocks, in plain torch: embedding, matrices, grouped matrices, experts.

Weights are decoded and multiplied in f32. A row's result does not depend on the other rows of the call, nor on their
number: every row is a matrix-vector product of its own, because BLAS sums a row of a larger product in another order.
Meant to be right on every device, not fast; it asks the device what was picked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whitedwarf.ops.twins.planes import TorchWeight, decode, decode_rows, part_of

DECODED_VALUES = 1 << 26  # of a weight at once: 256 MiB


@dataclass(frozen=True, slots=True)
class Block:
    """A SwiGLU block: of routed experts stacked on the first axis, or of the shared one."""

    gate: TorchWeight  # ([E,] F, D)
    up: TorchWeight  # ([E,] F, D)
    down: TorchWeight  # ([E,] D, F)
    limit: float  # clamp of gate (above) and up (both sides); inf = none


def embed(table: TorchWeight, ids: Tensor) -> Tensor:
    """Rows `ids` (n,) int32 of the (V, D) table -> (n, D)."""
    return decode_rows(table, ids)


def best_ids(logits: Tensor) -> Tensor:
    """The id of the largest logit of each row (n, V) -> (n,) int32; the lowest among equals."""
    is_best = logits == logits.amax(dim=1, keepdim=True)
    return is_best.int().argmax(dim=1).int()


def linear(x: Tensor, weight: TorchWeight) -> Tensor:
    """(n, in) by (out, in) -> (n, out)."""
    out = torch.empty((len(x), weight.shape[0]), device=x.device)
    for rows, matrix in _pieces(weight):
        for i, row in enumerate(x):
            out[i, rows] = matrix @ row
    return out


def linears(
    x: Tensor, weights: Sequence[TorchWeight], norm: Tensor | None = None, epsilon: float = 0.0
) -> list[Tensor]:
    """`linear` with each of the weights: of x, or, with `norm` (in,), of rms_norm(x, norm, epsilon)."""
    inputs = x if norm is None else x * (1 / torch.sqrt((x * x).mean(dim=1, keepdim=True) + epsilon)) * norm
    return [linear(inputs, weight) for weight in weights]


def grouped_linear(x: Tensor, weight: TorchWeight, groups: int) -> Tensor:
    """(n, G in) by (G out, in) -> (n, G out): group g of the outputs reads group g of the inputs."""
    width = weight.shape[0] // groups
    parts = [part_of(weight, slice(g * width, (g + 1) * width)) for g in range(groups)]
    products = [linear(inputs.contiguous(), part) for inputs, part in zip(x.chunk(groups, dim=1), parts, strict=True)]
    return torch.cat(products, dim=1)


def experts(
    x: Tensor,
    picked: Tensor,
    shares: Tensor,
    routed: Block,
    shared: Block | None = None,
    slots: Tensor | None = None,
    total: Tensor | None = None,
) -> Tensor:
    """Sum of the picked experts' outputs (n, D), then the shared one's if there is one; a share goes in before `down`.

    x (n, D), picked (n, k) int32, shares (n, k); slots (E,) int32 says where in the stacked tensors an expert lies;
    None = at its own number. The sum is in ascending order of experts, and goes on from `total` (n, D), which it may
    write into: so one call with all experts gives the same bits as several with some of them, in order.
    """
    places = picked if slots is None else slots[picked.long()]
    total = torch.zeros_like(x) if total is None else total
    for place, expert in _ordered(picked, places):
        gate, up, down = (part_of(weight, place) for weight in (routed.gate, routed.up, routed.down))
        rows, columns = (picked == expert).nonzero(as_tuple=True)
        outputs = _swiglu(x[rows], Block(gate, up, down, routed.limit), shares[rows, columns])
        total.index_put_((rows,), outputs, accumulate=True)
    return total if shared is None else total + _swiglu(x, shared, torch.ones(len(x), device=x.device))


def _ordered(picked: Tensor, places: Tensor) -> Iterator[tuple[int, int]]:
    """(place, expert) of every expert picked by any row, by number."""
    pairs = torch.stack([picked.flatten(), places.flatten()], dim=1).unique(dim=0)
    for expert, place in pairs.tolist():
        yield place, expert


def _swiglu(x: Tensor, block: Block, shares: Tensor) -> Tensor:
    """(m, D) -> (m, D)."""
    gate = linear(x, block.gate).clamp(max=block.limit)
    up = linear(x, block.up).clamp(-block.limit, block.limit)
    return linear(gate * torch.sigmoid(gate) * up * shares[:, None], block.down)


def _pieces(weight: TorchWeight) -> Iterator[tuple[slice, Tensor]]:
    """A matrix, decoded some rows at a time."""
    rows, columns = weight.shape
    step = max(1, DECODED_VALUES // columns)
    for first in range(0, rows, step):
        piece = slice(first, min(first + step, rows))
        yield piece, decode(part_of(weight, piece))
