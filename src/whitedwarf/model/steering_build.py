"""How a direction is found: from activations under prompts that show a behaviour, and under others that do not.

Pure arithmetic in float64: (prompts, layers, D) of each -> (layers, D) unit rows (8.2).
"""

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.steering import Directions

_SAME = 1e-9  # of the activations' own length: a shorter difference is rounding

Activations = npt.NDArray[np.float64]  # (prompts, layers, D)


def build_directions(
    good: Activations, bad: Activations, *, is_pair_normalised: bool = False, is_orthogonal: bool = True
) -> Directions:
    """Mean of good - bad in each layer, of length 1; where the sets do not differ, all zeros.

    `is_pair_normalised`: each pair of prompts counts the same, however far apart it lies. `is_orthogonal`: what the
    direction has in common with the mean of `bad` is left out, so that steering leaves ordinary answers alone.
    """
    if good.shape != bad.shape or not len(good):
        raise ValueError(f"expected two sets of one shape, got {good.shape} and {bad.shape}")
    differences = good - bad
    scale = np.linalg.norm(np.concatenate([good, bad]), axis=2).max(axis=0)
    if is_pair_normalised:
        differences = _unit(differences, scale)
    directions = _unit(differences.mean(axis=0), np.ones_like(scale) if is_pair_normalised else scale)
    if is_orthogonal:
        control = _unit(bad.mean(axis=0), scale)
        shared = (directions * control).sum(axis=1, keepdims=True)
        directions = _unit(directions - shared * control, np.ones_like(scale))
    if not directions.any():
        raise WhitedwarfError(
            "the two sets of prompts do not differ in any layer: give prompts that end in different expectations"
        )
    return directions.astype(np.float32)


def _unit(values: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows of length 1 (..., layers, D); zeros for those that are nothing beside `scale` (layers,)."""
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    is_nothing = norms <= _SAME * np.maximum(scale, np.finfo(np.float64).tiny)[:, None]
    return np.where(is_nothing, 0.0, values / np.where(is_nothing, 1.0, norms))
