"""Rotary positions: plain for window-only layers, YaRN-stretched for layers with compressed rows (fact sheet 1.2).

Frequencies and angles are float32 like the official tables; only cosine and sine are taken in float64 and rounded, so
at a million tokens we turn by the same (rounded) angle as the official model does.
"""

import math

import numpy as np
import numpy.typing as npt

from whitedwarf.gguf.hparams import Hyperparameters

Turns = npt.NDArray[np.float32]


class Rope:
    """A table of frequencies that answers cosines and sines for any positions."""

    def __init__(self, frequencies: npt.NDArray[np.float32]) -> None:
        self.frequencies = frequencies  # (rope/2,)

    @classmethod
    def plain(cls, hp: Hyperparameters) -> "Rope":
        return cls(_frequencies(hp.rope_base, hp.rope_dims).astype(np.float32))

    @classmethod
    def compressed(cls, hp: Hyperparameters) -> "Rope":
        base = _frequencies(hp.compress_rope_base, hp.rope_dims)
        if hp.yarn_factor == 1:
            return cls(base.astype(np.float32))
        keep = 1 - _ramp(hp)
        return cls((base * keep + base / hp.yarn_factor * (1 - keep)).astype(np.float32))

    def turns(self, positions: npt.NDArray[np.int32]) -> Turns:
        """(n,) positions -> (n, rope/2, 2) cosine and sine."""
        table = np.empty((len(positions), len(self.frequencies), 2), np.float32)
        if len(positions):
            exact = (positions.astype(np.float32)[:, None] * self.frequencies).astype(np.float64)
            table[..., 0], table[..., 1] = np.cos(exact), np.sin(exact)
        return table


def _frequencies(base: float, dims: int) -> npt.NDArray[np.float64]:
    return base ** (-np.arange(0, dims, 2, dtype=np.float64) / dims)


def _ramp(hp: Hyperparameters) -> npt.NDArray[np.float64]:
    """0 for pairs that turn often within the original context (kept), 1 for slow pairs (stretched by the factor)."""
    low = max(math.floor(_pair_with_rotations(hp, hp.yarn_beta_fast)), 0)
    high = min(math.ceil(_pair_with_rotations(hp, hp.yarn_beta_slow)), hp.rope_dims - 1)
    span = max(high - low, 0.001)
    return np.clip((np.arange(hp.rope_dims // 2) - low) / span, 0, 1)


def _pair_with_rotations(hp: Hyperparameters, rotations: float) -> float:
    """Index of the pair that makes `rotations` turns over the original context."""
    turns = hp.yarn_original_context / (2 * math.pi * rotations)
    return hp.rope_dims * math.log(turns) / (2 * math.log(hp.compress_rope_base))
