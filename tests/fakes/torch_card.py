"""A card made of this computer's memory: it has so many bytes, and refuses more."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from whitedwarf.errors import OutOfMemoryError


class CountedCard(TorchDispatchMode):
    """While it is entered, every tensor that torch makes is counted until it is gone. Numpy's own memory is not."""

    def __init__(self, budget_bytes: int) -> None:
        super().__init__()
        self.budget_bytes = budget_bytes
        self.peak_bytes = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    @property
    def used_bytes(self) -> int:
        self._live = {key: held for key, held in self._live.items() if not held[0].expired()}
        return sum(size for _, size in self._live.values())

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        before = len(self._live)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        if len(self._live) != before:
            self._check()
        return result

    def _check(self) -> None:
        used = self.used_bytes
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.budget_bytes:
            raise OutOfMemoryError(f"the card has {self.budget_bytes} bytes, {used} would be used")
