"""The device of a check, the two backends that are compared on it, and sizes: Flash's, or tiny ones where all is played
through on a CPU.
"""

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.ops.torch_ops import TorchOps


@dataclass(frozen=True)
class Setting:
    """Where a check runs. `kernels`: whether Triton's are used at all (interpreted where there is no device)."""

    is_simulated: bool
    kernels: bool = True

    @cached_property
    def device(self) -> torch.device:
        return torch.device("cpu" if self.is_simulated else "cuda")

    @cached_property
    def slow(self) -> TorchOps:
        """The twins, on the same device."""
        return TorchOps(str(self.device))

    @cached_property
    def fast(self) -> Any:
        return self.backend()

    def backend(self, records: bool = True) -> Any:
        """The backend under test."""
        if not self.kernels:
            return TorchOps(str(self.device))
        from whitedwarf.ops.triton_ops import TritonOps

        return TritonOps(str(self.device), records)

    @property
    def flash(self) -> Hyperparameters:
        """Flash, or what stands for it."""
        return model_shape("tiny", layers=4) if self.is_simulated else model_shape("flash")

    def small(self, layers: int, experts: int) -> Hyperparameters:
        """Some of its layers, with few experts."""
        return model_shape("tiny" if self.is_simulated else "flash", layers, experts)

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def draw(self, name: str) -> "Draw":
        generator = torch.Generator(device=self.device)
        generator.manual_seed(zlib.crc32(name.encode()))
        return Draw(self.device, generator)

    def times_s(self, call: Callable[[], object], repeats: int) -> list[float]:
        """Of each call, by the device's clock where it has one."""
        call()
        if self.device.type != "cuda":
            return [_host_time(call) for _ in range(repeats)]
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        for start, end in events:
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in events]


@dataclass(frozen=True)
class Draw:
    """Random numbers on a device."""

    device: torch.device
    generator: torch.Generator

    def floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self.generator, device=self.device, dtype=torch.int32)

    def turns(self, n: int, rope_dims: int) -> torch.Tensor:
        angles = 6.2831853 * torch.rand((n, rope_dims // 2), generator=self.generator, device=self.device)
        return torch.stack([angles.cos(), angles.sin()], dim=-1).contiguous()

    def distinct(self, n: int, count: int, end: int) -> torch.Tensor:
        """(n, count) different numbers below `end` in every row."""
        scores = torch.rand((n, end), generator=self.generator, device=self.device)
        return scores.argsort(dim=1)[:, :count].int().contiguous()


def _host_time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
