"""How much shared memory a program may have on a device: tiles and their rings must fit into it."""

from functools import cache

import torch

LARGE = 227 * 1024  # of an H100 or H200
_SMALL = 64 * 1024  # of AMD's devices, and what is assumed of unknown ones


@cache
def shared_memory(device: torch.device) -> int:
    """In bytes. Where kernels are interpreted there is no limit that matters."""
    if device.type != "cuda":
        return LARGE
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 0) or _SMALL)
