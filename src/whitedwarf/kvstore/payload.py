"""The DSV4 session payload (product.md 0.8, model.md 7.1): tokens, next-token logits and every layer's state.

Written as version 2, read as 1 or 2. A layer is a tuple of f32 arrays (rows, width) in the file's order: the window's
rows; where it compresses also the compressed rows and the frontier's values and scores (`ape` included); at ratio 4
also the index keys and their frontier's values and scores. What the arrays mean is model/session_payload.py's business.

Promises: what cannot be continued from raises FileFormatError with a message of its own per cause, before anything of
that size is allocated; arrays that were read are views of the given bytes.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError

MAGIC = 0x34565344  # "DSV4"
VERSION = 2
READABLE = (1, 2)
HEADER = struct.Struct("<13I")
F32 = np.dtype("<f4")
U32 = np.dtype("<u4")

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
LayerArrays = tuple[Floats, ...]  # 1, 4 or 7 of them: see above


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything about the session here that a payload must agree with."""

    ratios: tuple[int, ...]
    head_dim: int
    index_head_dim: int
    vocab_size: int
    sliding_window: int
    context_length: int
    prefill_chunk: int = 0  # 0: any will do; version 1 insists on its own otherwise, version 2 never

    @property
    def window(self) -> int:
        return min(self.sliding_window, self.context_length)

    @property
    def compressed_capacity(self) -> int:
        """Compressed rows of the layer that has most of them."""
        ratios = [ratio for ratio in self.ratios if ratio]
        return self.capacity(min(ratios)) if ratios else 0

    def capacity(self, ratio: int) -> int:
        return self.context_length // ratio + 2

    def layer_shapes(self, ratio: int, num_tokens: int) -> list[tuple[int, int]]:
        """Shapes of a layer's arrays, in the file's order."""
        shapes = [(min(self.window, num_tokens), self.head_dim)]
        if ratio:
            shapes += _compressor_shapes(ratio, num_tokens // ratio, self.head_dim)
        if ratio == 4:
            shapes += _compressor_shapes(ratio, num_tokens // ratio, self.index_head_dim)
        return shapes

    def payload_bytes(self, num_tokens: int) -> int:
        shapes = [shape for ratio in self.ratios for shape in self.layer_shapes(ratio, num_tokens)]
        words = num_tokens + self.vocab_size + 2 * len(self.ratios) + sum(rows * width for rows, width in shapes)
        return HEADER.size + 4 * words


@dataclass(frozen=True, slots=True)
class Payload:
    """A session as plain arrays. To be written, its layers may be made one by one: a file can be larger than memory."""

    ids: Ids
    logits: Floats  # (vocab,) after the last token
    layers: Iterable[LayerArrays]

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


def write_payload(payload: Payload, layout: Layout) -> Iterator[memoryview]:
    """The payload's bytes, piece by piece; ValueError if an array has another shape than the layout says."""
    n, ratios = payload.num_tokens, layout.ratios
    _check_shapes([payload.logits], [(layout.vocab_size,)], "logits")
    live = min(layout.window, n)
    sizes = layout.context_length, layout.prefill_chunk, layout.window, layout.window, layout.compressed_capacity
    model = len(ratios), layout.head_dim, layout.index_head_dim, layout.vocab_size
    yield memoryview(HEADER.pack(MAGIC, VERSION, *sizes, n, *model, live))
    yield _view(payload.ids, U32)
    yield _view(payload.logits, F32)
    yield _view(np.array([n // ratio if ratio else 0 for ratio in ratios]), U32)
    yield _view(np.array([n // 4 if ratio == 4 else 0 for ratio in ratios]), U32)
    for ratio, layer in zip(ratios, payload.layers, strict=True):
        _check_shapes(layer, layout.layer_shapes(ratio, n), "layer")
        yield from (_view(array, F32) for array in layer)


def read_payload(data: bytes | memoryview, layout: Layout, name: str) -> Payload:
    """Raises FileFormatError: the payload is damaged, or made by a session that this one cannot take over."""
    header = _Header.read(data, layout, name)
    reader = _Reader(data, name)
    ids = reader.take(U32, (header.num_tokens,), "tokens")
    logits = reader.take(F32, (layout.vocab_size,), "logits")
    _refuse_if(bool(len(ids)) and int(ids.max()) >= layout.vocab_size, name, "a token lies outside the vocabulary")
    layers = len(layout.ratios)
    compressed = reader.take(U32, (layers,), "compressed row counts")
    keys = reader.take(U32, (layers,), "index row counts")
    _check_counts(compressed, keys, header, layout, name)
    _check_size(len(data), layout.payload_bytes(header.num_tokens), name)
    arrays = tuple(
        tuple(reader.take(F32, shape, f"layer {index}") for shape in layout.layer_shapes(ratio, header.num_tokens))
        for index, ratio in enumerate(layout.ratios)
    )
    return Payload(ids.astype(np.int32), logits, arrays)


def read_ids(start: bytes, name: str) -> Ids:
    """The tokens, from the first bytes of a payload of which nothing else is checked; FileFormatError as above."""
    _refuse_if(len(start) < HEADER.size, name, f"the payload ends in its header, after {len(start)} bytes")
    magic, version, *_, num_tokens = HEADER.unpack_from(start)[:8]
    _refuse_if(magic != MAGIC or version not in READABLE, name, f"no payload of version {READABLE}")
    ids = _Reader(start, name).take(U32, (num_tokens,), "tokens")
    return ids.astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Header:
    """The thirteen numbers, checked."""

    num_tokens: int
    compressed_capacity: int

    @classmethod
    def read(cls, data: bytes | memoryview, layout: Layout, name: str) -> "_Header":
        _refuse_if(len(data) < HEADER.size, name, f"the payload ends in its header, after {len(data)} bytes")
        magic, version, *sizes, layers, head, index_head, vocab, live = HEADER.unpack_from(data)
        context, chunk, raw_capacity, raw_window, capacity, n = sizes
        _refuse_if(magic != MAGIC, name, f"the payload's magic is {magic:#010x}, expected {MAGIC:#010x} (DSV4)")
        _refuse_if(version not in READABLE, name, f"payload version {version} is not one of {READABLE}")
        here = layout.context_length
        _refuse_if(context > here, name, f"saved with context {context}, which is more than the {here} here")
        _refuse_if(n == 0, name, "the payload has no tokens")
        _refuse_if(n >= here, name, f"its {n} tokens leave no room in the context of {here}")
        ours = len(layout.ratios), layout.head_dim, layout.index_head_dim, layout.vocab_size
        theirs = layers, head, index_head, vocab
        _refuse_if(theirs != ours, name, f"layers, head, index head and vocabulary are {theirs}, the model has {ours}")
        is_other_chunk = version == 1 and layout.prefill_chunk not in (0, chunk)
        _refuse_if(is_other_chunk, name, f"prefill chunk {chunk} of version 1 is not the {layout.prefill_chunk} here")
        # the saver's window is capped by its own context; that it held fewer rows than needed here shows in `live`
        wanted_window = min(layout.sliding_window, context)
        _refuse_if(raw_window != wanted_window, name, f"its window is {raw_window} rows, expected {wanted_window}")
        _refuse_if(raw_capacity == 0, name, "its ring of raw rows has no capacity")
        _refuse_if(live > raw_capacity, name, f"{live} live raw rows do not fit its ring of {raw_capacity}")
        expected_live = min(layout.window, n)
        _refuse_if(live != expected_live, name, f"{live} live raw rows, expected {expected_live} of {n} tokens")
        most = layout.compressed_capacity
        _refuse_if(
            capacity > most, name, f"capacity for {capacity} compressed rows, which is more than the {most} here"
        )
        return cls(n, capacity)


class _Reader:
    """A position in the payload."""

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        self._data, self._name, self._offset = data, name, HEADER.size

    def take(self, dtype: np.dtype, shape: tuple[int, ...], what: str) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        end = self._offset + count * dtype.itemsize
        _refuse_if(end > len(self._data), self._name, f"the payload ends in its {what}")
        values = np.frombuffer(self._data, dtype, count, self._offset).reshape(shape)
        self._offset = end
        return values


def _check_counts(compressed: np.ndarray, keys: np.ndarray, header: _Header, layout: Layout, name: str) -> None:
    for index, ratio in enumerate(layout.ratios):
        rows, most = int(compressed[index]), min(header.compressed_capacity, layout.capacity(ratio) if ratio else 0)
        _refuse_if(rows > most, name, f"layer {index} has {rows} compressed rows, its capacity is {most}")
        expected = header.num_tokens // ratio if ratio else 0
        _refuse_if(rows != expected, name, f"layer {index} has {rows} compressed rows, expected {expected}")
        expected_keys = expected if ratio == 4 else 0
        found = int(keys[index])
        _refuse_if(found != expected_keys, name, f"layer {index} has {found} index rows, expected {expected_keys}")


def _check_size(size: int, expected: int, name: str) -> None:
    _refuse_if(size < expected, name, f"the payload is {expected - size} bytes too short")
    _refuse_if(size > expected, name, f"{size - expected} bytes follow the end of the payload")


def _check_shapes(arrays: Sequence[Floats], wanted: Sequence[tuple[int, ...]], what: str) -> None:
    found = [array.shape for array in arrays]
    if found != list(wanted):
        raise ValueError(f"{what}: arrays of shapes {found}, the layout says {list(wanted)}")


def _compressor_shapes(ratio: int, num_rows: int, dims: int) -> list[tuple[int, int]]:
    overlap = 2 if ratio == 4 else 1
    frontier = overlap * ratio, overlap * dims
    return [(num_rows, dims), frontier, frontier]


def _view(array: np.ndarray, dtype: np.dtype) -> memoryview:
    return np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data


def _refuse_if(is_wrong: bool, name: str, problem: str) -> None:
    if is_wrong:
        raise FileFormatError(
            f"{name}: {problem}. It is not used; delete it, or run with the settings it was made with."
        )
