"""Graphs without a device: a recording is the call with what it was given, and a replay makes that call again.

So it reads the numbers where they lay, as a real one does, and knows nothing of the newest pass. Its result is in the
same memory every time. What a real one refuses, asking the device for a number or bringing it one, is refused too.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

REFUSED = ("_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "lift_fresh", "equal")


class NothingAsked(TorchDispatchMode):
    """While it is entered, operations that wait for a device are errors."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in REFUSED or (name in ("index", "index_put_") and any(_is_mask(index) for index in args[1])):
            raise RuntimeError(f"{function} is not permitted when a stream is capturing")
        return function(*args, **(kwargs or {}))


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype == torch.bool


class CalledAgain:
    """Counts the recordings and replays it made."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error  # what every recording meets
        self.num_recorded = 0
        self.num_replayed = 0

    def record(self, run: Callable[[], Any]) -> Callable[[], Any]:
        if self.error is not None:
            raise self.error
        self.num_recorded += 1
        results: list[Any] = []

        def replay() -> Any:
            self.num_replayed += 1
            with NothingAsked():
                result = run()
            if not results:
                results.append(result.clone())
            return results[0].copy_(result)

        return replay
