"""A session as plain arrays between its file and its model, and what both must agree on.

Two formats hold one: dsv4.py, which ds4 also reads, and packed.py, our own. They are modules with the functions of
`PayloadFormat`. What the arrays mean is the business of model/session_payload.py and model/packed_session.py.

Promises: what cannot be continued from raises FileFormatError with a message of its own per cause, before anything of
that size is allocated; arrays that were read are views of the given bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError

F32 = np.dtype("<f4")
U32 = np.dtype("<u4")
U8 = np.dtype("u1")

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
LayerArrays = tuple[npt.NDArray[Any], ...]
Shape = tuple[int, ...]


class PayloadKind(IntEnum):
    """Byte 20 of a file's header. ds4 calls it the payload's ABI and knows 2 (0 in its older files)."""

    DS4 = 2
    PACKED = 0x57


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything about the session here that a payload must agree with."""

    ratios: tuple[int, ...]
    head_dim: int
    index_head_dim: int
    vocab_size: int
    sliding_window: int
    context_length: int
    prefill_chunk: int = 0  # 0: any will do; version 1 of DSV4 insists on its own otherwise, version 2 never
    row_kind: int = 0  # how rows lie in memory: a number of our own, 0 = not said
    row_bytes: int = 0  # of a KV row in memory
    key_bytes: int = 0  # of an index key in memory

    @property
    def window(self) -> int:
        return min(self.sliding_window, self.context_length)


@dataclass(frozen=True, slots=True)
class Payload:
    """A session as plain arrays. To be written, its layers may be made one by one: a file can be larger than memory."""

    ids: Ids
    logits: Floats | None  # (vocab,) after the last token; None = nobody knows them
    layers: Iterable[LayerArrays]
    kind: PayloadKind = PayloadKind.DS4

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


class PayloadFormat(Protocol):
    """What both modules offer."""

    HEADER_BYTES: int  # the token ids follow

    def payload_bytes(self, payload: Payload, layout: Layout) -> int:
        """How long the payload will be; its layers are not asked for."""

    def write_payload(self, payload: Payload, layout: Layout) -> Iterator[memoryview]:
        """The payload's bytes, piece by piece; ValueError if an array has another shape than the layout says."""

    def read_payload(self, data: bytes | memoryview, layout: Layout, name: str) -> Payload:
        """Raises FileFormatError: the payload is damaged, or made by a session that this one cannot take over."""

    def read_ids(self, start: bytes, name: str) -> Ids:
        """The tokens, from the payload's first bytes of which nothing else is checked; FileFormatError as above."""


class PayloadReader:
    """A position in a payload."""

    def __init__(self, data: bytes | memoryview, offset: int, name: str) -> None:
        self._data, self._offset, self._name = data, offset, name

    def take(self, dtype: np.dtype, shape: Shape, what: str) -> npt.NDArray[Any]:
        count = int(np.prod(shape, dtype=np.int64))
        end = self._offset + count * dtype.itemsize
        refuse_if(end > len(self._data), self._name, f"the payload ends in its {what}")
        values = np.frombuffer(self._data, dtype, count, self._offset).reshape(shape)
        self._offset = end
        return values


def live_slots(ratio: int, num_tokens: int) -> int:
    """Tokens in windows that are not over (model.md 2.10): at ratio 4 with the window before the open one."""
    opened = num_tokens - num_tokens % ratio
    return num_tokens - max(0, opened - (ratio if ratio == 4 else 0))


def frontier_overlap(ratio: int) -> int:
    return 2 if ratio == 4 else 1


def check_tokens(ids: npt.NDArray[Any], layout: Layout, name: str) -> None:
    is_outside = bool(len(ids)) and int(ids.max()) >= layout.vocab_size
    refuse_if(is_outside, name, "a token lies outside the vocabulary")


def check_size(size: int, expected: int, name: str) -> None:
    refuse_if(size < expected, name, f"the payload is {expected - size} bytes too short")
    refuse_if(size > expected, name, f"{size - expected} bytes follow the end of the payload")


def check_shapes(arrays: Sequence[npt.NDArray[Any]], wanted: Sequence[Shape], what: str) -> None:
    """Of arrays to be written: ValueError."""
    found = [array.shape for array in arrays]
    if found != list(wanted):
        raise ValueError(f"{what}: arrays of shapes {found}, the layout says {list(wanted)}")


def bytes_of(array: npt.NDArray[Any], dtype: np.dtype) -> memoryview:
    return np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data


def refuse_if(is_wrong: bool, name: str, problem: str) -> None:
    if is_wrong:
        raise FileFormatError(
            f"{name}: {problem}. It is not used; delete it, or run with the settings it was made with."
        )
