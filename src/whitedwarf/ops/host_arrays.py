"""What every backend on numpy arrays has in common: its arrays are numpy's, and a pass is simply run."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import A, FloatArray, HyperMix, HyperSettings, HyperWeights, P
from whitedwarf.ops.spans import HOST, RowMemory

BLOCK_ROWS = 16  # small enough that what lies between stays in the nearest caches


class HostArrays:
    """A part of CpuOps and ReferenceOps."""

    def parameter(self, values: A) -> A:
        return values

    def memory(self, layer: int) -> RowMemory:
        return HOST

    def arrays(self, *values: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], ...]:
        return values

    def host(self, x: FloatArray) -> FloatArray:
        return x

    def visible_rows(self, count: int) -> int:
        return count

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        return count

    def passing(self, run: Callable[[P], FloatArray], batch: P) -> FloatArray:
        return run(batch)

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        raise NotImplementedError

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        raise NotImplementedError

    def hyper_out_in(
        self, streams: FloatArray, output: FloatArray, mix: HyperMix, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, FloatArray, HyperMix]:
        after = self.hyper_out(streams, output, mix)
        return after, *self.hyper_in(after, weights, settings)

    def spread(self, x: FloatArray, streams: int) -> FloatArray:
        return np.repeat(x[:, None, :], streams, axis=1)

    def take_rows(self, x: FloatArray, rows: Sequence[int]) -> FloatArray:
        return np.ascontiguousarray(x[list(rows)])

    def steer(self, y: FloatArray, direction: FloatArray, scale: float) -> FloatArray:
        edited = np.empty_like(y)
        factor = y.dtype.type(scale)
        for start in range(0, len(y), BLOCK_ROWS):
            rows = y[start : start + BLOCK_ROWS]
            # A sum along each row, not a product of matrices: BLAS sums in another order for another number of rows.
            along = factor * (rows * direction).sum(axis=1, keepdims=True)
            np.subtract(rows, along * direction, out=edited[start : start + BLOCK_ROWS])
        return edited
