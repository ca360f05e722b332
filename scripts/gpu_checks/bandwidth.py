"""Part `bandwidth`: what the device is, and its two ceilings: copied bytes, and multiplications in bf16."""

from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from gpu_checks.case import Case
from gpu_checks.setting import Setting

PART = "bandwidth"


def cases(setting: Setting) -> Iterator[Case]:
    yield Case(PART, "device", lambda: describe(setting), 1)
    yield Case(PART, "copy", lambda: copy_speed(setting), 1)
    yield Case(PART, "bf16 product", lambda: product_speed(setting), 1)


def describe(setting: Setting) -> dict[str, Any]:
    import triton

    figures: dict[str, Any] = {"torch": torch.__version__, "triton": triton.__version__, "name": "CPU"}
    if setting.device.type == "cuda":
        properties: Any = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info()
        figures |= {
            "name": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "capability": torch.cuda.get_device_capability(),
            "total_bytes": total,
            "free_bytes": free,
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
        }
    return figures


def copy_speed(setting: Setting) -> dict[str, Any]:
    """Bytes read and written a second by a copy far larger than any cache."""
    size = 1 << 24 if setting.is_simulated else 1 << 32
    source = torch.empty(size, dtype=torch.uint8, device=setting.device)
    source.view(torch.int64).random_()
    target = torch.empty_like(source)
    times = setting.times_s(lambda: target.copy_(source), 10)
    return {"bytes_per_s": 2 * size / median(times), "best_bytes_per_s": 2 * size / min(times)}


def product_speed(setting: Setting) -> dict[str, Any]:
    size = 256 if setting.is_simulated else 8192
    one, other = (torch.randn((size, size), device=setting.device).bfloat16() for _ in range(2))
    times = setting.times_s(lambda: one @ other, 10)
    return {"operations_per_s": 2 * size**3 / median(times)}
