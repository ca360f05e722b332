"""Directional steering: one direction a layer, taken out of what attention or experts add to the streams (8.2).

The edit is `y - s * v * (v . y)` for every row: positive scales remove the direction, negative ones amplify it.
Promises: a row's result depends on that row alone, whatever stands beside it; where nothing is to be done (scale 0, or
a layer's direction is all zeros) there is no edit at all. Knows arrays only; `digest` names a steering, because a state
that was computed under it is of use under no other.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError
from whitedwarf.ops.base import FloatArray, Ops

MAX_SCALE = 100.0
UNIT_TOLERANCE = 1e-3
_F32 = np.dtype("<f4")

Directions = npt.NDArray[np.float32]  # (layers, D)


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """What is done to one part's output in one layer."""

    direction: FloatArray  # (D,)
    scale: float

    def taken_in(self, ops: Ops) -> "Edit":
        """The same for this backend."""
        return Edit(ops.parameter(self.direction), self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class LayerEdits:
    """The edits of one layer; None leaves that output as it is."""

    attention: Edit | None = None
    ffn: Edit | None = None

    def taken_in(self, ops: Ops) -> "LayerEdits":
        """The same for this backend."""
        attention, ffn = (edit and edit.taken_in(ops) for edit in (self.attention, self.ffn))
        return LayerEdits(attention, ffn)


NO_EDITS = LayerEdits()


@dataclass(frozen=True, eq=False)
class Steering:
    """Directions and how much of them is taken out. Not both scales are 0: no steering is None."""

    directions: Directions = field(repr=False)
    ffn: float = 1.0
    attention: float = 0.0

    def __post_init__(self) -> None:
        if not self.ffn and not self.attention:
            raise ValueError("a steering with both scales 0 is no steering: use None")
        if max(abs(self.ffn), abs(self.attention)) > MAX_SCALE:
            raise ValueError(f"scales are from -{MAX_SCALE:g} to {MAX_SCALE:g}, got {self.ffn} and {self.attention}")

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits of all that changes results."""
        scales = np.array([self.ffn, self.attention], "<f8") + 0.0  # which makes -0.0 a 0.0
        content = np.ascontiguousarray(self.directions, _F32).tobytes()
        return hashlib.sha256(scales.tobytes() + content).hexdigest()[:32]

    def edits(self, layer: int) -> LayerEdits:
        direction = self.directions[layer]
        if not direction.any():
            return NO_EDITS
        return LayerEdits(_edit(direction, self.attention), _edit(direction, self.ffn))


def check_size(num_bytes: int, num_layers: int, hidden: int, name: str) -> None:
    """FileFormatError unless a file has the size of this model's directions."""
    expected = num_layers * hidden * _F32.itemsize
    if num_bytes != expected:
        raise FileFormatError(
            f"{name}: {num_bytes} bytes; expected {expected}, f32 numbers for {num_layers} layers of {hidden}: these "
            "directions are of another model, build them for this one with `whitedwarf steer build`"
        )


def read_directions(data: bytes, num_layers: int, hidden: int, name: str) -> Directions:
    """The numbers of a `.f32` file: headerless little-endian f32, (layers, D).

    FileFormatError when they are not as many as the model needs, or not finite, or all zeros.
    """
    check_size(len(data), num_layers, hidden, name)
    directions = np.frombuffer(data, _F32).reshape(num_layers, hidden).astype(np.float32)
    if not np.isfinite(directions).all():
        raise FileFormatError(f"{name}: layer {_first(~np.isfinite(directions))} has a number that is not finite")
    if not directions.any():
        raise FileFormatError(f"{name}: all numbers are 0: there is no direction to steer along")
    return directions


def uneven_layers(directions: Directions) -> list[int]:
    """Layers whose direction is neither of length 1 nor left out: there a scale means something else."""
    norms = np.linalg.norm(directions.astype(np.float64), axis=1)
    return [int(i) for i in np.flatnonzero((norms != 0) & (np.abs(norms - 1) > UNIT_TOLERANCE))]


def _edit(direction: npt.NDArray[np.float32], scale: float) -> Edit | None:
    return Edit(direction, scale) if scale else None


def _first(marks: npt.NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(marks.any(axis=1))[0])
