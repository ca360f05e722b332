"""Products with weights in their blocks: the twins' functions (ops/twins/products.py) by Triton's kernels.

Few rows (n < 16) are multiplied in f32, more of them by tensor cores from bfloat16 with sums in f32 (ops/base.py says
what that costs in precision). A row's result does not depend on the others within one of the two ways.
"""

from collections.abc import Sequence

from torch import Tensor

from whitedwarf.ops.triton.few_rows import few_rows
from whitedwarf.ops.twins.planes import TorchWeight


def linear(x: Tensor, weight: TorchWeight) -> Tensor:
    """(n, in) by (out, in) -> (n, out)."""
    return linears(x, [weight])[0]


def linears(
    x: Tensor, weights: Sequence[TorchWeight], norm: Tensor | None = None, epsilon: float = 0.0
) -> list[Tensor]:
    """`linear` with each of the weights: of x, or, with `norm` (in,), of rms_norm(x, norm, epsilon)."""
    return few_rows(x, weights, norm, epsilon)


def grouped_linear(x: Tensor, weight: TorchWeight, groups: int) -> Tensor:
    """(n, G in) by (G out, in) -> (n, G out): group g of the outputs reads group g of the inputs."""
    return few_rows(x, [weight], groups=groups)[0]
