"""Metal kernels for tests against the reference: on the CPU, and where there is Metal, on the device as well.

Skips where a piece is missing.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed (pip install 'mlx[cpu]')")

from metal.shim import Shim  # noqa: E402
from whitedwarf.ops.metal import launch  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile Metal kernels for the CPU")


@dataclass
class OnDevice:
    """Takes the place of ops/metal/launch.py's `made`, and lets it do its work."""

    make: Callable[[launch.Source], Callable[..., list]]
    launched: list[str] = field(default_factory=list)  # names of sources

    def __call__(self, source: launch.Source) -> Callable[..., list]:
        self.launched.append(source.name)
        return self.make(source)


@pytest.fixture(params=["forwards", "backwards"])
def shim(request, monkeypatch) -> Shim:
    """Kernels launched in a test run on the CPU, the threads of a group in this order."""
    made = Shim(backwards=request.param == "backwards")
    monkeypatch.setattr(launch, "made", made)
    return made


@pytest.fixture(params=["forwards", "backwards", *(["device"] if mx.metal.is_available() else [])])
def kernels(request, monkeypatch) -> Shim | OnDevice:
    """Kernels launched in a test run on the CPU, or where there is Metal, there."""
    made = OnDevice(launch.made) if request.param == "device" else Shim(backwards=request.param == "backwards")
    monkeypatch.setattr(launch, "made", made)
    return made


def on_mlx(x: np.ndarray) -> "mx.array":
    return mx.array(np.ascontiguousarray(x))
