"""A backend on PyTorch devices as a placement says: on one card or several, all of it there or not the experts."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor

from whitedwarf.errors import BackendError
from whitedwarf.ops.base import Ops
from whitedwarf.ops.expert_source import ExpertSource
from whitedwarf.ops.host_expert_ops import HostExpertOps
from whitedwarf.ops.layered_ops import LayeredOps
from whitedwarf.ops.torch_cards import CPU_CARD, TorchCard
from whitedwarf.ops.torch_experts import HostBackend, HostExperts, Misses, Product
from whitedwarf.ops.torch_ops import TorchOps
from whitedwarf.ops.twins import products
from whitedwarf.weights.placement import Mode, Placement, Share

HOW_TO_GET_TRITON = "Triton is not installed: pip install 'whitedwarf[cuda]'"


@dataclass(frozen=True, slots=True)
class Planned:
    """A backend, and the experts in host memory card by card, if they are there."""

    ops: Ops
    host_experts: tuple[HostExperts, ...] = ()


def make_torch_ops(
    backend: str,
    placement: Placement | None = None,
    cpu: HostBackend | None = None,
    misses: Misses = "auto",
    source: ExpertSource | None = None,
) -> Planned:
    """`backend`: torch, cuda or rocm. Without a placement the first card has everything.

    `source`: where the experts come from that are not on cards; `cpu` has to have them from there, too.
    """
    if placement is None:
        return Planned(_plain(backend, CPU_CARD if backend == "torch" else "cuda:0", records=True))
    is_whole = placement.mode is Mode.WHOLE
    cards = [_on_card(backend, share, cpu, misses, source, records=is_whole) for share in placement.shares]
    experts = tuple(experts for _, experts in cards if experts is not None)
    if len(cards) == 1:
        return Planned(cards[0][0], experts)
    layered = [
        TorchCard(ops, share.end_layer, torch.device(share.device))
        for (ops, _), share in zip(cards, placement.shares, strict=True)
    ]
    return Planned(LayeredOps.over(layered), experts)


def _on_card(
    backend: str, share: Share, cpu: HostBackend | None, misses: Misses, source: ExpertSource | None, *, records: bool
) -> tuple[Ops, HostExperts | None]:
    ops = _plain(backend, share.device, records=records)
    if not share.slots:
        return ops, None
    experts = HostExperts(share.device, share.slots, _product(backend), cpu, misses, source)
    return HostExpertOps.around(ops, experts), experts


def _plain(backend: str, device: str, *, records: bool) -> Ops:
    if backend == "torch":
        return cast(Ops, TorchOps(device))
    try:
        kernels = import_module("whitedwarf.ops.triton_ops")
    except ImportError as error:
        raise BackendError(f"backend {backend} is not available: {HOW_TO_GET_TRITON} ({error})") from error
    return cast(Ops, kernels.TritonOps(device, records=records))


def _product(backend: str) -> Product:
    if backend == "torch":
        return products.experts
    return _adding(import_module("whitedwarf.ops.triton.products").experts)


def _adding(product: Callable[..., Tensor]) -> Product:
    """A product that knows no `total`: what comes in rounds is summed round by round."""

    def run(
        x: Tensor, picked: Tensor, shares: Tensor, routed: Any, shared: Any, slots: Tensor, *total: Tensor
    ) -> Tensor:
        result = product(x, picked, shares, routed, shared, slots)
        return total[0] + result if total else result

    return run
