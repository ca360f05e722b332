"""Our own session payload: rows as they lie in memory, a third of DSV4's size, and a checksum over everything.

Files with it carry 0x57 in byte 20 of their header, where ds4 keeps the number of its payload's layout: a ds4 that
knows the byte refuses the file there, and an older one, which does not look at it, refuses the payload for its first
four bytes. Both still see a file with a size and a date that they may evict.

All integers little-endian u32, all floats f32:

    0   "WDKV"              4   version, 1
    8   kind of rows        12  bytes of a KV row       16  bytes of an index key
    20  tokens, n           24  layers                  28  head dim                32  index head dim
    36  vocabulary          40  sliding window          44  1 if there are logits, else 0
    48  token[n], ratio[layers], then float logits[vocabulary] if there are any
        of each layer: its window's min(window, n) KV rows; if its ratio r is not 0, n // r KV rows, then a value and
        then a gate (without `ape`) of each token in a window that is not over; if r = 4, the same again of index keys
    -4  CRC-32 of all before it

Tokens in windows that are not over: the last n % r, at r = 4 and n >= 4 also the 4 before them. Their values and gates
have (2 if r = 4 else 1) * head dim floats, those of keys as many of the index head dim.

A module of the functions of `PayloadFormat`.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np

from whitedwarf.kvstore.payload import (
    F32,
    U8,
    U32,
    Ids,
    Layout,
    Payload,
    PayloadKind,
    PayloadReader,
    bytes_of,
    check_shapes,
    check_size,
    check_tokens,
    frontier_overlap,
    live_slots,
    refuse_if,
)

MAGIC = b"WDKV"
VERSION = 1
HEADER = struct.Struct("<4s11I")
HEADER_BYTES = HEADER.size
CHECKSUM = struct.Struct("<I")


def payload_bytes(payload: Payload, layout: Layout) -> int:
    return size_bytes(payload.num_tokens, layout, has_logits=payload.logits is not None)


def size_bytes(num_tokens: int, layout: Layout, *, has_logits: bool) -> int:
    """Of a payload of so many tokens."""
    words = num_tokens + len(layout.ratios) + (layout.vocab_size if has_logits else 0)
    arrays = [array for ratio in layout.ratios for array in _layer_arrays(layout, ratio, num_tokens)]
    rows = sum(dtype.itemsize * count * width for dtype, (count, width) in arrays)
    return HEADER.size + 4 * words + rows + CHECKSUM.size


def write_payload(payload: Payload, layout: Layout) -> Iterator[memoryview]:
    checksum = 0
    for part in _parts(payload, layout):
        checksum = zlib.crc32(part, checksum)
        yield part
    yield memoryview(CHECKSUM.pack(checksum))


def read_payload(data: bytes | memoryview, layout: Layout, name: str) -> Payload:
    n, has_logits = _read_header(data, layout, name)
    reader = PayloadReader(data, HEADER.size, name)
    ids = reader.take(U32, (n,), "tokens")
    check_tokens(ids, layout, name)
    ratios = tuple(reader.take(U32, (len(layout.ratios),), "ratios").tolist())
    refuse_if(ratios != layout.ratios, name, f"its layers compress by {ratios}, the model's by {layout.ratios}")
    check_size(len(data), size_bytes(n, layout, has_logits=has_logits), name)
    _check_checksum(data, name)
    logits = reader.take(F32, (layout.vocab_size,), "logits") if has_logits else None
    arrays = tuple(
        tuple(reader.take(dtype, shape, f"layer {index}") for dtype, shape in _layer_arrays(layout, ratio, n))
        for index, ratio in enumerate(ratios)
    )
    return Payload(ids.astype(np.int32), logits, arrays, PayloadKind.PACKED)


def read_ids(start: bytes, name: str) -> Ids:
    refuse_if(len(start) < HEADER.size, name, f"the payload ends in its header, after {len(start)} bytes")
    magic, version, *_ = fields = HEADER.unpack_from(start)
    refuse_if((magic, version) != (MAGIC, VERSION), name, f"no payload {MAGIC!r} of version {VERSION}")
    ids = PayloadReader(start, HEADER.size, name).take(U32, (fields[5],), "tokens")
    return ids.astype(np.int32)


def _parts(payload: Payload, layout: Layout) -> Iterator[memoryview]:
    """Everything before the checksum."""
    n = payload.num_tokens
    yield memoryview(HEADER.pack(MAGIC, VERSION, *_rows_of(layout), n, *_model_of(layout), payload.logits is not None))
    yield bytes_of(payload.ids, U32)
    yield bytes_of(np.array(layout.ratios), U32)
    if payload.logits is not None:
        check_shapes([payload.logits], [(layout.vocab_size,)], "logits")
        yield bytes_of(payload.logits, F32)
    for ratio, layer in zip(layout.ratios, payload.layers, strict=True):
        wanted = _layer_arrays(layout, ratio, n)
        check_shapes(layer, [shape for _, shape in wanted], "layer")
        yield from (bytes_of(array, dtype) for array, (dtype, _) in zip(layer, wanted, strict=True))


def _read_header(data: bytes | memoryview, layout: Layout, name: str) -> tuple[int, bool]:
    """How many tokens, and whether there are logits."""
    refuse_if(len(data) < HEADER.size, name, f"the payload ends in its header, after {len(data)} bytes")
    magic, version, kind, row, key, n, *model, has_logits = HEADER.unpack_from(data)
    refuse_if(magic != MAGIC, name, f"the payload begins with {magic!r}, expected {MAGIC!r}")
    refuse_if(version != VERSION, name, f"payload version {version} is not {VERSION}")
    rows, ours = (kind, row, key), _rows_of(layout)
    refuse_if(rows != ours, name, f"kind of rows and bytes of a row and a key are {rows}, here they are {ours}")
    refuse_if(n == 0, name, "the payload has no tokens")
    here = layout.context_length
    refuse_if(n >= here, name, f"its {n} tokens leave no room in the context of {here}")
    theirs, wanted = tuple(model), _model_of(layout)
    what = "layers, head, index head, vocabulary and window"
    refuse_if(theirs != wanted, name, f"{what} are {theirs}, the model has {wanted}")
    refuse_if(has_logits > 1, name, f"whether there are logits is {has_logits}, expected 0 or 1")
    return n, has_logits == 1


def _check_checksum(data: bytes | memoryview, name: str) -> None:
    view = memoryview(data)
    found, expected = zlib.crc32(view[: -CHECKSUM.size]), CHECKSUM.unpack(view[-CHECKSUM.size :])[0]
    refuse_if(found != expected, name, f"its checksum is {found:#010x}, expected {expected:#010x}: it is damaged")


def _rows_of(layout: Layout) -> tuple[int, int, int]:
    return layout.row_kind, layout.row_bytes, layout.key_bytes


def _model_of(layout: Layout) -> tuple[int, int, int, int, int]:
    sizes = layout.head_dim, layout.index_head_dim, layout.vocab_size, layout.sliding_window
    return len(layout.ratios), *sizes


def _layer_arrays(layout: Layout, ratio: int, num_tokens: int) -> list[tuple[np.dtype, tuple[int, int]]]:
    """Types and shapes of a layer's arrays, in the file's order."""
    arrays = [(U8, (min(layout.sliding_window, num_tokens), layout.row_bytes))]
    if ratio:
        arrays += _compressor_arrays(ratio, num_tokens, layout.row_bytes, layout.head_dim)
    if ratio == 4:
        arrays += _compressor_arrays(ratio, num_tokens, layout.key_bytes, layout.index_head_dim)
    return arrays


def _compressor_arrays(
    ratio: int, num_tokens: int, row_bytes: int, dims: int
) -> list[tuple[np.dtype, tuple[int, int]]]:
    frontier = F32, (live_slots(ratio, num_tokens), frontier_overlap(ratio) * dims)
    return [(U8, (num_tokens // ratio, row_bytes)), frontier, frontier]
