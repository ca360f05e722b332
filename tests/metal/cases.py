"""Metal kernels on the CPU, for tests against their twins and the reference; skips where a piece is missing."""

import shutil

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed (pip install 'mlx[cpu]')")

from metal.shim import Shim  # noqa: E402
from whitedwarf.ops.metal import launch  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile Metal kernels for the CPU")


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def shim(request, monkeypatch) -> Shim:
    """Kernels launched in a test run on the CPU, the threads of a group in this order."""
    made = Shim(backwards=request.param)
    monkeypatch.setattr(launch, "made", made)
    return made


def on_mlx(x: np.ndarray) -> "mx.array":
    return mx.array(np.ascontiguousarray(x))
