"""Products with weights in their blocks: the twins' functions (ops/twins/products.py) by Triton's kernels.

Few rows (n < 16) are multiplied in f32, more of them by tensor cores from bfloat16 with sums in f32 (ops/base.py says
what that costs in precision). A row's result does not depend on the others within one of the two ways.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from whitedwarf.ops.triton.best import best_ids
from whitedwarf.ops.triton.embed import embed
from whitedwarf.ops.triton.experts_few import experts_few
from whitedwarf.ops.triton.experts_many import experts_many
from whitedwarf.ops.triton.few_rows import FEW, few_rows
from whitedwarf.ops.triton.many_rows import many_rows
from whitedwarf.ops.twins.planes import TorchWeight
from whitedwarf.ops.twins.products import Block

__all__ = ["best_ids", "embed", "experts", "grouped_linear", "linear", "linears"]


def linear(x: Tensor, weight: TorchWeight) -> Tensor:
    """(n, in) by (out, in) -> (n, out)."""
    return linears(x, [weight])[0]


def linears(
    x: Tensor, weights: Sequence[TorchWeight], norm: Tensor | None = None, epsilon: float = 0.0
) -> list[Tensor]:
    """`linear` with each of the weights: of x, or, with `norm` (in,), of rms_norm(x, norm, epsilon)."""
    return _way(x, weights[0])(x, weights, norm, epsilon)


def grouped_linear(x: Tensor, weight: TorchWeight, groups: int) -> Tensor:
    """(n, G in) by (G out, in) -> (n, G out): group g of the outputs reads group g of the inputs."""
    return _way(x, weight)(x, [weight], groups=groups)[0]


def experts(
    x: Tensor, picked: Tensor, shares: Tensor, routed: Block, shared: Block | None = None, slots: Tensor | None = None
) -> Tensor:
    """As the twin, but summed in the order of the picks."""
    if len(x) < FEW or routed.gate.shape[2] % 16 or routed.gate.shape[1] % 16:
        return experts_few(x, picked, shares, routed, shared, slots)
    return experts_many(x, picked, shares, routed, shared, slots)


def _way(x: Tensor, weight: TorchWeight) -> Callable[..., list[Tensor]]:
    """Tensor cores want 16 rows, and 16 columns at a time."""
    return few_rows if len(x) < FEW or weight.shape[-1] % 16 else many_rows
