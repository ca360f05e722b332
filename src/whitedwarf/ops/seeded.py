"""Weights made on the device from a seed, so that a model of any size is there in seconds and without a file.

Valid blocks of every type with the deviations of gguf/synth.py, so activations are of the order of one. The numbers are
the same for the same seed on the same kind of device; another kind of device draws others. For measuring speed, and for
comparing two backends around one set of weights. Small vectors and token tables come from the host.
"""

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from whitedwarf.gguf.census import ExpectedTensor
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.synth import Dialect, expert_table, plan_tensors, spread_of
from whitedwarf.gguf.synth_blocks import MXFP4_RMS
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import Ops, Weight
from whitedwarf.ops.twins.blocks import decode_blocks
from whitedwarf.ops.twins.planes import TorchWeight, empty_weight
from whitedwarf.weights.tensors import Tensor as FileTensor

JITTER, JITTER_RMS = 0.25, 1.0104  # of the scales, which keeps the mean square
SAMPLE_BLOCKS = 4096
# In which proportion the f16 scales of a block stand; the second one of the K types shifts the mean to zero.
_HALVES: dict[GgmlType, tuple[float, ...]] = {
    GgmlType.Q8_0: (1.0,),
    GgmlType.Q2_K: (1.0, 1.5),
    GgmlType.Q4_K: (1.0, 7.5),
    GgmlType.IQ2_XXS: (1.0,),
}


class SeededOps:
    """Wraps a torch backend; weights without bytes (`seeded_tensors`) are drawn where they will stay."""

    def __init__(self, inner: Ops, device: torch.device, seed: int) -> None:
        self._inner = inner
        self._device = device
        self._seed = seed

    @classmethod
    def around(cls, inner: Any, seed: int = 0) -> Ops:
        """Itself as a backend. `inner` is TorchOps or made of it."""
        return cast(Ops, cls(inner, inner.device, seed))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all that is not below is the backend's own

    def weight(self, tensor: FileTensor) -> Weight:
        if not is_seeded(tensor):
            return self._inner.weight(tensor)
        return seeded_weight(tensor.name, tensor.type, tensor.shape, self._device, self._seed)


def seeded_tensors(
    hp: Hyperparameters, quant: str = "q2", seed: int = 0, dialect: Dialect = "ds4"
) -> Mapping[str, FileTensor]:
    """Every tensor of a model; matrices have a size and no bytes. Feed them to Transformer.load with SeededOps."""
    return {name: _tensor(hp, name, want, type, seed) for name, want, type in plan_tensors(hp, quant, dialect)}


def is_seeded(tensor: FileTensor) -> bool:
    """Whether all its bytes are one and the same: it is to be drawn."""
    return tensor.data.strides == (0,)


def seeded_weight(
    name: str, type: GgmlType, shape: tuple[int, ...], device: torch.device, seed: int = 0
) -> TorchWeight:
    """A matrix with the deviation that its name has in a synthetic model."""
    weight = empty_weight(type, shape, device)
    generator = torch.Generator(device=device)
    generator.manual_seed(zlib.crc32(f"{seed} {name}".encode()))  # a CPU looks at 32 bits
    _draw(weight.type, weight.planes, spread_of(name, shape[-1]).std, generator)
    return weight


def _draw(type: GgmlType, planes: tuple[Tensor, ...], std: float, generator: torch.Generator) -> None:
    if len(planes) == 1:
        planes[0].normal_(0.0, std, generator=generator)
        return
    for plane in planes[:-1]:
        _draw_bytes(plane, generator)
    if type is GgmlType.MXFP4:
        _draw_exponents(planes[1], std, generator)
        return
    _make_valid(type, planes)
    scales = planes[-1].view(-1, len(_HALVES[type]))
    scales[:, 0].uniform_(1 - JITTER, 1 + JITTER, generator=generator)
    scales[:, 0] *= std / (_unit(type) * JITTER_RMS)
    for i, proportion in enumerate(_HALVES[type][1:], 1):
        scales[:, i] = scales[:, 0] * proportion


def _draw_bytes(plane: Tensor, generator: torch.Generator) -> None:
    """Any bytes, eight at a time."""
    flat = plane.view(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    flat[:whole].view(torch.int64).random_(-(2**63), None, generator=generator)
    flat[whole:].random_(0, 256, generator=generator)


def _make_valid(type: GgmlType, planes: tuple[Tensor, ...]) -> None:
    """What a quantiser could have written: large integer scales, symmetric ranges (gguf/synth_blocks.py)."""
    if type is GgmlType.Q8_0:
        planes[0].clamp_(min=-127)
    elif type is GgmlType.IQ2_XXS:
        planes[0].view(-1, 2)[:, 1].bitwise_or_(-(2**31))  # group scales of 8 to 15
    elif type is GgmlType.Q2_K:
        planes[1].bitwise_and_(7).add_(8).mul_(17)  # minimum = scale
    elif type is GgmlType.Q4_K:
        small = planes[1].view(-1, 12)
        small[:, :4].bitwise_and_(0x7F).bitwise_or_(0xA0)  # six-bit scales of 32 to 63, all eight of them
        small[:, 4:8] = small[:, :4]
        small[:, 8:].bitwise_and_(15).mul_(17)


def _draw_exponents(scales: Tensor, std: float, generator: torch.Generator) -> None:
    """Powers of two: two neighbours mixed so that the mean square is right."""
    low = int(np.floor(np.log2(std / MXFP4_RMS)))
    share_of_high = ((std / (2.0**low * MXFP4_RMS)) ** 2 - 1) / 3
    scales.random_(0, 256, generator=generator)
    is_high = scales < round(256 * share_of_high)
    scales.fill_(low + 127).add_(is_high)


@cache
def _unit(type: GgmlType) -> float:
    """Standard deviation of the values where the scale is one."""
    weight = empty_weight(type, (1, SAMPLE_BLOCKS * type.block_size), "cpu")
    generator = torch.Generator().manual_seed(1)
    for plane in weight.planes[:-1]:
        _draw_bytes(plane, generator)
    _make_valid(type, weight.planes)
    weight.planes[-1].view(-1, len(_HALVES[type])).copy_(torch.tensor(_HALVES[type]))
    return float(decode_blocks(type, weight.planes).std())


def _tensor(hp: Hyperparameters, name: str, want: ExpectedTensor, type: GgmlType, seed: int) -> FileTensor:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if want.kind == "indices":
        data = expert_table(hp, rng).reshape(-1).view(np.uint8)
        return FileTensor(name, type, want.shape, data)
    if want.kind == "vector" or name.endswith("_ape.weight"):
        spread = spread_of(name, want.shape[-1])
        values = (spread.mean + spread.std * rng.standard_normal(want.shape)).astype(np.float32)
        return FileTensor(name, GgmlType.F32, want.shape, values.reshape(-1).view(np.uint8))
    size_bytes = type.row_bytes(want.shape[-1]) * int(np.prod(want.shape[:-1], dtype=np.int64))
    return FileTensor(name, type, want.shape, np.broadcast_to(np.uint8(0), (size_bytes,)))
