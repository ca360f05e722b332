"""Muon for matrices, AdamW-like steps for the rest, and the running mean of the weights that is kept in the end.

The state lives in shared memory, so that any training process can take the next step.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Odd polynomials that drive every singular value towards 1; found for four rounds in bfloat16 (Polar Express schedule).
ROUNDS = ((8.2872, -23.5959, 17.3004), (4.1071, -2.9478, 0.5448), (3.9487, -2.9089, 0.5518), (3.3184, -2.4885, 0.5100))
_ADAM_MEMORY = (0.9, 0.97)
_WEIGHT_DECAY = 0.02


def orthogonalised(matrices: Tensor) -> Tensor:
    """Each matrix (n, rows, columns) with its singular values brought near 1; f32."""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    current = matrices.to(torch.bfloat16)
    if is_tall:
        current = current.transpose(-1, -2).contiguous()
    norm = current.float().norm(dim=(-2, -1), keepdim=True)
    current = current / (norm * 1.01 + 1e-7).to(torch.bfloat16)
    for linear, cubic, quintic in ROUNDS:
        square = current @ current.transpose(-1, -2)
        mixed = torch.baddbmm(square, square, square, beta=cubic, alpha=quintic)
        current = torch.baddbmm(current, mixed, current, beta=linear)
    return (current.transpose(-1, -2) if is_tall else current).float()


def adam_factor(name: str) -> float:
    """How much faster than the base rate a parameter learns."""
    factors = {"embed.weight": 3.0, "head.weight": 1.0}
    if name in factors:
        return factors[name]
    if any(part in name for part in ("base", "scale", "sink")):
        return 1.5
    if "ape" in name:
        return 3.0
    return 0.5 if "fn" in name else 1.0


@dataclass(frozen=True)
class Rates:
    """Learning rates of a step."""

    muon: float
    adam: float

    def times(self, factor: float) -> "Rates":
        return Rates(self.muon * factor, self.adam * factor)


class Optimiser:
    """Steps over named parameters; `matrices` are Muon's."""

    def __init__(self, values: dict[str, Tensor], matrices: list[str], mean_memory: float):
        self.values, self.mean_memory = values, mean_memory
        self._matrices = set(matrices)
        self.first = {name: torch.zeros_like(value).share_memory_() for name, value in values.items()}
        others = {name: value for name, value in values.items() if name not in self._matrices}
        self.second = {name: torch.zeros_like(value).share_memory_() for name, value in others.items()}
        self.mean = {name: value.clone().share_memory_() for name, value in values.items()}

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor], number: int, rates: Rates) -> None:
        """Apply the gradients of step `number` (from 1)."""
        momentum = min(0.95, 0.85 + number * 0.001)
        for name, gradient in gradients.items():
            if name in self._matrices:
                self._turn(name, gradient, momentum, rates.muon)
            else:
                self._nudge(name, gradient, number, rates.adam * adam_factor(name))
            self.mean[name].lerp_(self.values[name], 1 - min(self.mean_memory, 1 - 1 / number))

    def _turn(self, name: str, gradient: Tensor, momentum: float, rate: float) -> None:
        value, memory = self.values[name], self.first[name]
        rows, columns = value.shape[-2:]
        memory.lerp_(gradient, 1 - momentum)
        direction = orthogonalised(gradient.lerp(memory, momentum).view(-1, rows, columns)).view_as(value)
        value.mul_(1 - rate * _WEIGHT_DECAY).add_(direction, alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def _nudge(self, name: str, gradient: Tensor, number: int, rate: float) -> None:
        slow, fast = _ADAM_MEMORY
        first, second = self.first[name], self.second[name]
        first.lerp_(gradient, 1 - slow)
        second.mul_(fast).addcmul_(gradient, gradient, value=1 - fast)
        root = (second / (1 - fast**number)).sqrt_().add_(1e-9)
        self.values[name].addcdiv_(first / (1 - slow**number), root, value=-rate)
