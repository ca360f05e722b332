"""What PyTorch says of the cards here. Asking it starts the driver, and takes some of a card's memory."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch

from whitedwarf.errors import BackendError
from whitedwarf.ops.base import Ops
from whitedwarf.ops.torch_ops import current
from whitedwarf.weights.placement import Card

CPU_CARD = "cpu"
COPIED_BYTES, COPIES = 1 << 30, 9  # milliseconds each on a large card, beside which a start is nothing


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


def device_name(device: torch.device) -> str:
    """As its maker calls it."""
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else "PyTorch on this CPU"


def copy_speed(device: torch.device) -> float:
    """Bytes a second that a copy within the device's memory reads and writes: the median of several."""
    source = torch.ones(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(COPIES + 1):
        start = perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(perf_counter() - start)
    return 2 * COPIED_BYTES / median(times[1:])


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
