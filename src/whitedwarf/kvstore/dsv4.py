"""The DSV4 session payload (product.md 0.8, model.md 7.1): tokens, next-token logits and every layer's state.

Written as version 2, read as 1 or 2. A layer is a tuple of f32 arrays (rows, width) in the file's order: the window's
rows; where it compresses also the compressed rows and the frontier's values and scores (`ape` included); at ratio 4
also the index keys and their frontier's values and scores. Logits that nobody knows are written as zeros.

A module of the functions of `PayloadFormat`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whitedwarf.kvstore.payload import (
    F32,
    U32,
    Ids,
    Layout,
    Payload,
    PayloadReader,
    bytes_of,
    check_shapes,
    check_size,
    check_tokens,
    frontier_overlap,
    refuse_if,
)

MAGIC = 0x34565344  # "DSV4"
VERSION = 2
READABLE = (1, 2)
HEADER = struct.Struct("<13I")
HEADER_BYTES = HEADER.size


def payload_bytes(payload: Payload, layout: Layout) -> int:
    return size_bytes(payload.num_tokens, layout)


def size_bytes(num_tokens: int, layout: Layout) -> int:
    """Of a payload of so many tokens."""
    shapes = [shape for ratio in layout.ratios for shape in layer_shapes(layout, ratio, num_tokens)]
    words = num_tokens + layout.vocab_size + 2 * len(layout.ratios) + sum(rows * width for rows, width in shapes)
    return HEADER.size + 4 * words


def write_payload(payload: Payload, layout: Layout) -> Iterator[memoryview]:
    n, ratios = payload.num_tokens, layout.ratios
    logits = np.zeros(layout.vocab_size, np.float32) if payload.logits is None else payload.logits
    check_shapes([logits], [(layout.vocab_size,)], "logits")
    live = min(layout.window, n)
    sizes = layout.context_length, layout.prefill_chunk, layout.window, layout.window, _most_rows(layout)
    model = len(ratios), layout.head_dim, layout.index_head_dim, layout.vocab_size
    yield memoryview(HEADER.pack(MAGIC, VERSION, *sizes, n, *model, live))
    yield bytes_of(payload.ids, U32)
    yield bytes_of(logits, F32)
    yield bytes_of(np.array([n // ratio if ratio else 0 for ratio in ratios]), U32)
    yield bytes_of(np.array([n // 4 if ratio == 4 else 0 for ratio in ratios]), U32)
    for ratio, layer in zip(ratios, payload.layers, strict=True):
        check_shapes(layer, layer_shapes(layout, ratio, n), "layer")
        yield from (bytes_of(array, F32) for array in layer)


def read_payload(data: bytes | memoryview, layout: Layout, name: str) -> Payload:
    header = _Header.read(data, layout, name)
    reader = PayloadReader(data, HEADER.size, name)
    ids = reader.take(U32, (header.num_tokens,), "tokens")
    logits = reader.take(F32, (layout.vocab_size,), "logits")
    check_tokens(ids, layout, name)
    layers = len(layout.ratios)
    compressed = reader.take(U32, (layers,), "compressed row counts")
    keys = reader.take(U32, (layers,), "index row counts")
    _check_counts(compressed, keys, header, layout, name)
    check_size(len(data), size_bytes(header.num_tokens, layout), name)
    arrays = tuple(
        tuple(reader.take(F32, shape, f"layer {index}") for shape in layer_shapes(layout, ratio, header.num_tokens))
        for index, ratio in enumerate(layout.ratios)
    )
    return Payload(ids.astype(np.int32), logits, arrays)


def read_ids(start: bytes, name: str) -> Ids:
    refuse_if(len(start) < HEADER.size, name, f"the payload ends in its header, after {len(start)} bytes")
    magic, version, *_, num_tokens = HEADER.unpack_from(start)[:8]
    refuse_if(magic != MAGIC or version not in READABLE, name, f"no payload of version {READABLE}")
    ids = PayloadReader(start, HEADER.size, name).take(U32, (num_tokens,), "tokens")
    return ids.astype(np.int32)


def layer_shapes(layout: Layout, ratio: int, num_tokens: int) -> list[tuple[int, int]]:
    """Shapes of a layer's arrays, in the file's order."""
    shapes = [(min(layout.window, num_tokens), layout.head_dim)]
    if ratio:
        shapes += _compressor_shapes(ratio, num_tokens // ratio, layout.head_dim)
    if ratio == 4:
        shapes += _compressor_shapes(ratio, num_tokens // ratio, layout.index_head_dim)
    return shapes


@dataclass(frozen=True, slots=True)
class _Header:
    """The thirteen numbers, checked."""

    num_tokens: int
    compressed_capacity: int

    @classmethod
    def read(cls, data: bytes | memoryview, layout: Layout, name: str) -> "_Header":
        refuse_if(len(data) < HEADER.size, name, f"the payload ends in its header, after {len(data)} bytes")
        magic, version, *sizes, layers, head, index_head, vocab, live = HEADER.unpack_from(data)
        context, chunk, raw_capacity, raw_window, capacity, n = sizes
        refuse_if(magic != MAGIC, name, f"the payload's magic is {magic:#010x}, expected {MAGIC:#010x} (DSV4)")
        refuse_if(version not in READABLE, name, f"payload version {version} is not one of {READABLE}")
        here = layout.context_length
        refuse_if(context > here, name, f"saved with context {context}, which is more than the {here} here")
        refuse_if(n == 0, name, "the payload has no tokens")
        refuse_if(n >= here, name, f"its {n} tokens leave no room in the context of {here}")
        ours = len(layout.ratios), layout.head_dim, layout.index_head_dim, layout.vocab_size
        theirs = layers, head, index_head, vocab
        refuse_if(theirs != ours, name, f"layers, head, index head and vocabulary are {theirs}, the model has {ours}")
        is_other_chunk = version == 1 and layout.prefill_chunk not in (0, chunk)
        refuse_if(is_other_chunk, name, f"prefill chunk {chunk} of version 1 is not the {layout.prefill_chunk} here")
        # the saver's window is capped by its own context; that it held fewer rows than needed here shows in `live`
        wanted_window = min(layout.sliding_window, context)
        refuse_if(raw_window != wanted_window, name, f"its window is {raw_window} rows, expected {wanted_window}")
        refuse_if(raw_capacity == 0, name, "its ring of raw rows has no capacity")
        refuse_if(live > raw_capacity, name, f"{live} live raw rows do not fit its ring of {raw_capacity}")
        expected_live = min(layout.window, n)
        refuse_if(live != expected_live, name, f"{live} live raw rows, expected {expected_live} of {n} tokens")
        most = _most_rows(layout)
        refuse_if(capacity > most, name, f"capacity for {capacity} compressed rows, which is more than the {most} here")
        return cls(n, capacity)


def _check_counts(
    compressed: npt.NDArray[np.uint32], keys: npt.NDArray[np.uint32], header: _Header, layout: Layout, name: str
) -> None:
    for index, ratio in enumerate(layout.ratios):
        rows, most = int(compressed[index]), min(header.compressed_capacity, _capacity(layout, ratio) if ratio else 0)
        refuse_if(rows > most, name, f"layer {index} has {rows} compressed rows, its capacity is {most}")
        expected = header.num_tokens // ratio if ratio else 0
        refuse_if(rows != expected, name, f"layer {index} has {rows} compressed rows, expected {expected}")
        expected_keys = expected if ratio == 4 else 0
        found = int(keys[index])
        refuse_if(found != expected_keys, name, f"layer {index} has {found} index rows, expected {expected_keys}")


def _most_rows(layout: Layout) -> int:
    """Compressed rows of the layer that may have most of them."""
    ratios = [ratio for ratio in layout.ratios if ratio]
    return _capacity(layout, min(ratios)) if ratios else 0


def _capacity(layout: Layout, ratio: int) -> int:
    return layout.context_length // ratio + 2


def _compressor_shapes(ratio: int, num_rows: int, dims: int) -> list[tuple[int, int]]:
    overlap = frontier_overlap(ratio)
    frontier = overlap * ratio, overlap * dims
    return [(num_rows, dims), frontier, frontier]
