"""The Apple backend for the tests, on numpy arrays: its twins, which is what runs where there is no Metal."""

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed (pip install 'mlx[cpu]')")

from ops.cases import REFERENCE  # noqa: E402
from ops.through_numpy import ThroughNumpy  # noqa: E402
from whitedwarf.ops.base import Weight  # noqa: E402
from whitedwarf.ops.metal import choice  # noqa: E402
from whitedwarf.ops.mlx_ops import MlxOps  # noqa: E402
from whitedwarf.weights.tensors import Tensor  # noqa: E402

OPS = MlxOps(choice.TWINS)
MLX = ThroughNumpy(OPS)


def both_of(tensor: Tensor) -> tuple[Weight, Weight]:
    """The same tensor for MLX and for the reference."""
    return OPS.weight(tensor), REFERENCE.weight(tensor)


def on_mlx(x: np.ndarray) -> "mx.array":
    return mx.array(np.ascontiguousarray(x))
