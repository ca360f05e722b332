"""How much each column of a tensor matters when it is encoded: what an imatrix measured, made fit for the encoders.

Promises that only what cannot change the bytes is changed: importances are multiplied by a power of four, and a run of
columns that nobody has seen, all zero, counts evenly instead of encoding to nothing. Knows no files.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_USUAL_EXPONENT = 16


def column_energy(values: Floats) -> Floats:
    """The importance used when no imatrix is given: per matrix and column, the sum of squares over its rows."""
    rows = values if values.ndim > 1 else values[None]
    energy: Floats = np.einsum("...rc,...rc->...c", rows, rows)[..., None, :].astype(np.float32)
    return energy


def prepared(weights: Floats, block_size: int) -> Floats:
    """`weights` (..., columns) in blocks of columns, as the encoders want them. ValueError for impossible ones."""
    scaled = _near_one(weights)
    blocks = scaled.reshape(*scaled.shape[:-1], -1, block_size)
    is_unseen = ~blocks.any(axis=-1, keepdims=True)
    return np.where(is_unseen, np.float32(1), blocks).reshape(scaled.shape) if is_unseen.any() else scaled


def _near_one(weights: Floats) -> Floats:
    """Only ratios matter: importances far from one are multiplied by a power of four, which keeps every bit, also of
    their roots, so that no sum over- or underflows."""
    largest = float(weights.max(initial=0))
    if not 0 <= largest < np.inf or weights.min(initial=0) < 0:
        raise ValueError("importances must be finite and not negative")
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= _USUAL_EXPONENT:
        return weights.astype(np.float32, copy=False)
    return np.ldexp(weights.astype(np.float32, copy=False), -(exponent + exponent % 2))
