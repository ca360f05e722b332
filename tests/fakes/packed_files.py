"""Our own payload, written and read straight from the table in kvstore/packed.py, with the header of kv_files.py.

Shares nothing with src/whitedwarf/kvstore, like kv_files.py. Rows here are just bytes.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fakes.kv_files import HEAD, INDEX_HEAD, RATIOS, WINDOW, FakeFile, words

ROW_KIND, ROW_BYTES, KEY_BYTES = 1, 11, 3
Arrays = list[list[np.ndarray]]


def open_tokens(ratio: int, n: int) -> int:
    """Tokens of which the frontier keeps a value and a gate."""
    if ratio != 4:
        return n % ratio
    return n % 4 + (4 if n >= 4 else 0)


@dataclass
class PackedFile(FakeFile):
    """Every field of a file with a packed payload."""

    abi: int = 0x57
    ours: bytes = b"\x01\0\0"
    payload_magic: bytes = b"WDKV"
    version: int = 1
    row_kind: int = ROW_KIND
    row_bytes: int = ROW_BYTES
    key_bytes: int = KEY_BYTES
    ratios: tuple[int, ...] = RATIOS
    has_logits: int = 1
    checksum: int | None = None

    def arrays(self) -> Arrays:
        rng = np.random.default_rng(self.seed)

        def rows(count: int, size: int) -> np.ndarray:
            return rng.integers(0, 256, (count, size), np.uint8)

        def floats(count: int, width: int) -> np.ndarray:
            return rng.standard_normal((count, width)).astype("<f4")

        layers: Arrays = []
        for ratio in RATIOS:
            layer = [rows(min(WINDOW, self.n), ROW_BYTES)]
            if ratio:
                count, width = open_tokens(ratio, self.n), HEAD * (2 if ratio == 4 else 1)
                layer += [rows(self.n // ratio, ROW_BYTES), floats(count, width), floats(count, width)]
            if ratio == 4:
                layer += [rows(self.n // 4, KEY_BYTES), *(floats(count, 2 * INDEX_HEAD) for _ in range(2))]
            layers.append(layer)
        return layers

    def payload(self) -> bytes:
        sizes = self.head, self.index_head, self.vocab, self.window, self.has_logits
        rows = self.row_kind, self.row_bytes, self.key_bytes
        data = (
            self.payload_magic
            + words(self.version, *rows, self.n, self.layers, *sizes)
            + words(*self.tokens(), *self.ratios)
            + (self.logits().tobytes() if self.has_logits else b"")
            + b"".join(array.tobytes() for layer in self.arrays() for array in layer)
        )
        return data + words(zlib.crc32(data) if self.checksum is None else self.checksum) + self.payload_tail


def read_packed(data: bytes, layer_ratios: Sequence[int] = RATIOS) -> dict[str, Any]:
    """Everything in a packed payload of layers that compress so."""
    fields = np.frombuffer(data[4:48], "<u4").tolist()
    version, kind, row, key, n, layers, head, index_head, vocab, window, has_logits = fields
    at = 48

    def take(count: int, dtype: str) -> np.ndarray:
        nonlocal at
        size = count * np.dtype(dtype).itemsize
        at += size
        assert at <= len(data) - 4
        return np.frombuffer(data[at - size : at], dtype)

    found: dict[str, Any] = {"magic": data[:4], "version": version, "rows": (kind, row, key), "has_logits": has_logits}
    found["ids"], found["ratios"] = take(n, "<u4"), take(layers, "<u4")
    found["logits"] = take(vocab, "<f4") if has_logits else None
    found["layers"] = []
    for ratio in layer_ratios:
        arrays = [take(min(window, n) * row, "u1")]
        if ratio:
            count = open_tokens(ratio, n) * (2 * head if ratio == 4 else head)
            arrays += [take(n // ratio * row, "u1"), take(count, "<f4"), take(count, "<f4")]
        if ratio == 4:
            count = open_tokens(4, n) * 2 * index_head
            arrays += [take(n // 4 * key, "u1"), take(count, "<f4"), take(count, "<f4")]
        found["layers"].append(arrays)
    assert at == len(data) - 4
    assert int.from_bytes(data[at:], "little") == zlib.crc32(data[:at])
    return found
