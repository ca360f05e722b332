"""What PyTorch says of the cards here. Asking it starts the driver, and takes some of a card's memory."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from whitedwarf.errors import BackendError
from whitedwarf.ops.base import Ops
from whitedwarf.ops.torch_ops import current
from whitedwarf.weights.placement import Card

CPU_CARD = "cpu"


@dataclass(frozen=True, slots=True)
class TorchCard:
    """A device with a part of the layers. See ops/layered_ops.py, Card."""

    ops: Ops
    end_layer: int
    device: torch.device

    def owns(self, array: Any) -> bool:
        return not isinstance(array, torch.Tensor) or array.device == self.device

    def take(self, array: Any) -> Any:
        return array.to(self.device, non_blocking=True)

    def current(self) -> AbstractContextManager[Any]:
        return current(self.device)


def torch_cards(backend: str, budget_bytes: int | None = None) -> list[Card]:
    """Every card that a process may use, of an NVIDIA (cuda) or AMD (rocm) build. BackendError says why there is none.

    A budget is that of each card.
    """
    is_amd = torch.version.hip is not None
    if not torch.cuda.is_available() or is_amd != (backend == "rocm"):
        what = "AMD cards through ROCm" if backend == "rocm" else "NVIDIA cards through CUDA"
        raise BackendError(
            f"backend {backend} is not available: PyTorch {torch.__version__} finds no {what}; check the driver with "
            f"{'rocm-smi' if backend == 'rocm' else 'nvidia-smi'}, and that PyTorch was built for it"
        )
    cards = [_card(index, budget_bytes) for index in range(torch.cuda.device_count())]
    for card in cards:
        _keep_budget(card)
    return cards


def cpu_card(total_bytes: int, usable_bytes: int, budget_bytes: int | None = None) -> Card:
    """This computer's own memory in a card's place: to try plans out, and for tests."""
    return Card(CPU_CARD, "PyTorch on this CPU", total_bytes, usable_bytes, budget_bytes is None, budget_bytes)


def _keep_budget(card: Card) -> None:
    """Let PyTorch refuse what would be beyond it."""
    if card.budget_bytes is not None:
        share = min(1.0, card.budget_bytes / card.total_bytes)
        torch.cuda.set_per_process_memory_fraction(share, torch.device(card.device))


def _card(index: int, budget_bytes: int | None) -> Card:
    properties: Any = torch.cuda.get_device_properties(index)
    free_bytes, total_bytes = torch.cuda.mem_get_info(index)
    is_integrated = bool(getattr(properties, "is_integrated", 0))
    return Card(f"cuda:{index}", properties.name, int(total_bytes), int(free_bytes), is_integrated, budget_bytes)
