"""Random inputs for the operations, and the backends to compare."""

from dataclasses import dataclass

import numpy as np

from whitedwarf._native import Kernels
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import Ops, RowFormat, RowKind, Rows, Weight
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.reference import ReferenceOps
from whitedwarf.ops.rows import encode_rows
from whitedwarf.weights.tensors import Tensor

LEVELS = tuple(Kernels.available_levels())
CPU = {level: CpuOps(threads=1, quality=True, level=level) for level in LEVELS}
THREADED = {threads: CpuOps(threads=threads, quality=True) for threads in (2, 3)}
REFERENCE = ReferenceOps()
EPSILON = 1e-6
KV_KINDS = (RowKind.F32, RowKind.F16, RowKind.PACKED_KV_F16, RowKind.PACKED_KV)
KEY_KINDS = (RowKind.F32, RowKind.F16, RowKind.PACKED_KEY)


@dataclass(frozen=True, slots=True)
class Draw:
    """A source of random float32 arrays."""

    rng: np.random.Generator

    @classmethod
    def seeded(cls, seed: int) -> "Draw":
        return cls(np.random.default_rng(seed))

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def turns(self, n: int, rope_dims: int) -> np.ndarray:
        angles = self.rng.uniform(0, 2 * np.pi, (n, rope_dims // 2))
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)

    def rows(self, count: int, format: RowFormat, first: int = 0) -> Rows:
        return Rows(format, encode_rows(self.floats(count, format.dims), format), first)


def tensor(values: np.ndarray) -> Tensor:
    return Tensor("test", GgmlType.F32, values.shape, np.ascontiguousarray(values).reshape(-1).view(np.uint8))


def both(values: np.ndarray, ops: Ops) -> tuple[Weight, Weight]:
    """The same weight for a backend and for the reference."""
    return ops.weight(tensor(values)), REFERENCE.weight(tensor(values))


def exact(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)


def assert_close(
    actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5, size: np.ndarray | None = None
) -> None:
    """Row by row: the error is within `tolerance` of the norm of the expected row (or of `size`, where sums cancel)."""
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    errors = np.linalg.norm((actual - expected).reshape(len(expected), -1), axis=1)
    norms = np.linalg.norm((expected if size is None else size).reshape(len(expected), -1), axis=1)
    assert (errors <= tolerance * norms).all(), f"relative errors up to {(errors / norms).max():.2e}"


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()
