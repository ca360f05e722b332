"""Blocks of the quantised types to numbers, in plain torch: gguf/codecs* once more, on the device, from planes.

Bit-equal to those wherever the result is a number: the order of the multiplications is part of a format's meaning.
Every function maps the planes of whole blocks (planes.py) -> (blocks, block_size) f32.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from whitedwarf.gguf.codecs_iq import GRID_CODES
from whitedwarf.gguf.codecs_plain import FP4_DOUBLED
from whitedwarf.gguf.types import GgmlType

GRID_VALUES = (8, 25, 43)


def decode_blocks(type: GgmlType, planes: tuple[Tensor, ...]) -> Tensor:
    """The values of planes of any shape, f32 (blocks, block_size)."""
    return _DECODERS[type](*planes)


def grid_table(device: torch.device | str) -> Tensor:
    """IQ2_XXS's 256 points of eight magnitudes, (256, 8) int8."""
    return torch.tensor(GRID_VALUES, dtype=torch.int8)[torch.from_numpy(GRID_CODES).long()].to(device)


def sign_table(device: torch.device | str) -> Tensor:
    """(128, 8) f32 of ±1: seven stored bits, the eighth makes the number of negatives even."""
    bits = (torch.arange(128)[:, None] >> torch.arange(7)) & 1
    parity = bits.sum(dim=1, keepdim=True) & 1
    return (1 - 2 * torch.cat([bits, parity], dim=1)).float().to(device)


def _floats(values: Tensor) -> Tensor:
    return values.float().view(-1, 1)


def _q8_0(quants: Tensor, scales: Tensor) -> Tensor:
    return quants.view(-1, 32).float() * scales.float().view(-1, 1)


def _mxfp4(quants: Tensor, scales: Tensor) -> Tensor:
    packed = quants.view(-1, 16)
    codes = torch.cat([packed & 15, packed >> 4], dim=1)
    doubled = torch.from_numpy(FP4_DOUBLED).to(quants.device)[codes.int()]
    return doubled * _half_scales(scales.view(-1, 1))


def _half_scales(exponents: Tensor) -> Tensor:
    """2^(byte - 128) by its bits; the two smallest are denormal."""
    bytes = exponents.int()
    bits = torch.where(bytes >= 2, (bytes - 1) << 23, 1 << (21 + bytes))
    return bits.int().view(torch.float32)


def _q2_k(quants: Tensor, small: Tensor, halves: Tensor) -> Tensor:
    small, halves = small.view(-1, 16), halves.float().view(-1, 2)
    by_two = torch.arange(0, 8, 2, device=quants.device).view(-1, 1)
    values = (quants.view(-1, 2, 1, 32).int() >> by_two) & 3
    return _affine(halves[:, :1] * (small & 15), values.float(), halves[:, 1:] * (small >> 4))


def _q4_k(quants: Tensor, small: Tensor, halves: Tensor) -> Tensor:
    first, second, mixed = small.view(-1, 3, 4).unbind(1)
    scales = torch.cat([first & 63, (mixed & 15) | ((first >> 2) & 48)], dim=1)
    offsets = torch.cat([second & 63, (mixed >> 4) | ((second >> 2) & 48)], dim=1)
    halves = halves.float().view(-1, 2)
    packed = quants.view(-1, 4, 1, 32)
    values = torch.cat([packed & 15, packed >> 4], dim=2)
    return _affine(halves[:, :1] * scales, values.float(), halves[:, 1:] * offsets)


def _affine(scales: Tensor, quants: Tensor, offsets: Tensor) -> Tensor:
    num_blocks, groups = scales.shape
    products = scales[:, :, None] * quants.reshape(num_blocks, groups, -1)
    return (products - offsets[:, :, None]).view(num_blocks, 256)


def _iq2_xxs(codes: Tensor, scales: Tensor) -> Tensor:
    words = codes.view(-1, 8, 2)
    indices = words[:, :, :1].contiguous().view(torch.uint8)  # (blocks, 8, 4)
    grid = grid_table(codes.device)[indices.int()].float()  # (blocks, 8, 4, 8)
    by_seven = torch.arange(0, 28, 7, device=codes.device)
    signs = sign_table(codes.device)[((words[:, :, 1:] >> by_seven) & 127).int()]
    half_steps = 0.5 + ((words[:, :, 1] >> 28) & 15).float()
    steps = scales.float().view(-1, 1) * half_steps * 0.25
    return (steps[:, :, None, None] * grid * signs).view(-1, 256)


_DECODERS: dict[GgmlType, Callable[..., Tensor]] = {
    GgmlType.F32: _floats,
    GgmlType.F16: _floats,
    GgmlType.BF16: _floats,
    GgmlType.Q8_0: _q8_0,
    GgmlType.MXFP4: _mxfp4,
    GgmlType.Q2_K: _q2_k,
    GgmlType.Q4_K: _q4_k,
    GgmlType.IQ2_XXS: _iq2_xxs,
}
