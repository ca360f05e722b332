"""Numpy arrays as torch tensors and back, for the tests of the operations on PyTorch devices."""

import numpy as np
import torch

from whitedwarf.ops.base import Rows
from whitedwarf.ops.twins.rows import TorchRows


def on_device(x: np.ndarray | None) -> torch.Tensor | None:
    return None if x is None else torch.from_numpy(np.array(x, order="C"))


def from_device(x: torch.Tensor) -> np.ndarray:
    assert x.is_contiguous()
    return x.cpu().numpy()


def rows_on_device(rows: Rows | None) -> TorchRows | None:
    return None if rows is None else TorchRows(rows.format, on_device(rows.data), rows.first)
