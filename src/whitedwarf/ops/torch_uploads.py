"""Experts on their way from host memory into slots on a device: an expert's three matrices, split into planes there.

On a card bytes go through pinned memory and on a stream of their own; `join` makes the work that is asked for next wait
for them, the host waits for nothing but a free place in the staging ring. Elsewhere they are simply copied.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from whitedwarf.ops.expert_source import Matrices
from whitedwarf.ops.twins.planes import TAKEN_AS_F16, split_blocks, take_in
from whitedwarf.ops.twins.products import Block
from whitedwarf.weights.placement import STAGED_EXPERTS


class Uploads:
    """The way into slots, for experts of at most `staging_bytes` in the file."""

    def __init__(self, device: torch.device, staging_bytes: int) -> None:
        self._device = device
        ring = STAGED_EXPERTS if device.type == "cuda" else 1
        self._places = [_Place(device, staging_bytes) for _ in range(ring)]
        self._next = 0
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def put(self, matrices: Matrices, slots: Block, slot: int) -> None:
        """Begin to bring an expert into a slot, after all work that was asked for before.

        Where it comes from need not stay.
        """
        place = self._places[self._next]
        self._next = (self._next + 1) % len(self._places)
        if self._stream is None:
            place.bring(matrices, slots, slot)
            return
        place.wait()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            place.bring(matrices, slots, slot)
            place.arrived.record(self._stream)

    def join(self) -> None:
        """What is asked for from now on sees the experts that were put."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)


class _Place:
    """Staging for one expert: on the host, and on the device before it is split."""

    def __init__(self, device: torch.device, staging_bytes: int) -> None:
        is_cuda = device.type == "cuda"
        self._host = torch.empty(staging_bytes, dtype=torch.uint8, pin_memory=is_cuda)
        self._raw = torch.empty(staging_bytes, dtype=torch.uint8, device=device) if is_cuda else self._host
        self.arrived: Any = torch.cuda.Event() if is_cuda else None

    def wait(self) -> None:
        """Until the expert that was here before has left: an event that was never recorded is over at once."""
        self.arrived.synchronize()

    def bring(self, matrices: Matrices, slots: Block, slot: int) -> None:
        first = 0
        for matrix, weight in zip(matrices, (slots.gate, slots.up, slots.down), strict=True):
            planes = tuple(plane[slot] for plane in weight.planes)
            end = first + matrix.data.size
            if matrix.type in TAKEN_AS_F16:
                planes[0].copy_(take_in(matrix, planes[0].device).planes[0])
            else:
                split_blocks(self._uploaded(matrix.data, first, end), matrix.type, planes)
            first = end

    def _uploaded(self, data: np.ndarray, first: int, end: int) -> Tensor:
        np.copyto(self._host[first:end].numpy(), data)
        raw = self._raw[first:end]
        if raw.device.type != "cpu":
            raw.copy_(self._host[first:end], non_blocking=True)
        return raw
