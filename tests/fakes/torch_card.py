"""Cards made of this computer's memory: one has so many bytes and refuses more, others refuse each other's tensors."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from whitedwarf.errors import OutOfMemoryError


class CountedCard(TorchDispatchMode):
    """While it is entered, every tensor that torch makes is counted until it is gone. Numpy's own memory is not."""

    def __init__(self, budget_bytes: int) -> None:
        super().__init__()
        self.budget_bytes = budget_bytes
        self.peak_bytes = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._most_bytes = 0  # used at most: what has gone since the last look is still in it

    @property
    def used_bytes(self) -> int:
        self._live = {key: held for key, held in self._live.items() if not held[0].expired()}
        return sum(size for _, size in self._live.values())

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for made in _tensors((result,)):
            self._count(made.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        held = self._live.get(storage._cdata)
        if held is not None and not held[0].expired():
            return
        self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self._most_bytes += storage.nbytes()
        if self._most_bytes <= min(self.peak_bytes, self.budget_bytes):
            return
        self._most_bytes = used = self.used_bytes
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.budget_bytes:
            raise OutOfMemoryError(f"the card has {self.budget_bytes} bytes, {used} would be used")


class TaggedCards(TorchDispatchMode):
    """While it is entered, a tensor belongs to the card for which it was made (cpu:0, cpu:1, ...) or from whose tensors
    it was computed; two cards' tensors in one operation are an error. What names no card is anybody's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[tuple[int, tuple[int, ...]]] = []  # whither, and which shape
        self._tags: dict[int, tuple[StorageWeakRef, int]] = {}

    def card_of(self, tensor: torch.Tensor) -> int | None:
        storage = tensor.untyped_storage()
        held = self._tags.get(storage._cdata)
        return None if held is None or held[0].expired() else held[1]

    def move(self, tensor: torch.Tensor, card: int) -> torch.Tensor:
        with _disable_current_modes():
            moved = tensor.clone()
        self._tag(moved, card)
        self.moves.append((card, tuple(tensor.shape)))
        return moved

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        device = given.get("device")
        result = function(*args, **given)
        cards = {self.card_of(tensor) for tensor in _tensors((*args, *given.values()))} - {None}
        if device is not None and torch.device(device).index is not None:
            cards |= {torch.device(device).index}
        if len(cards) > 1:
            raise AssertionError(f"{function} mixes tensors of the cards {cards}")
        for made in _tensors((result,)) if cards else ():
            self._tag(made, *cards)
        return result

    def _tag(self, tensor: torch.Tensor, card: int | None) -> None:
        storage = tensor.untyped_storage()
        if card is not None:
            self._tags[storage._cdata] = (StorageWeakRef(storage), card)


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Those among arguments or results, also in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


@dataclass(frozen=True)
class TaggedCard:
    """One of the cards, with a backend for it. See ops/layered_ops.py, Card."""

    tags: TaggedCards
    number: int
    ops: Any
    end_layer: int

    def owns(self, array: Any) -> bool:
        return not isinstance(array, torch.Tensor) or self.tags.card_of(array) in (None, self.number)

    def take(self, array: torch.Tensor) -> torch.Tensor:
        return self.tags.move(array, self.number)

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()
