"""KVC files written and read straight from the fact sheets (product.md B.18, 0.8; model.md 7).

Shares nothing with src/whitedwarf/kvstore: when both agree on the bytes, both agree with the sheets.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RATIOS = (0, 4, 128)
HEAD, INDEX_HEAD, VOCAB, WINDOW = 8, 4, 20, 128


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def words(*values: int) -> bytes:
    return b"".join(number(value, 4) for value in values)


@dataclass
class FakeFile:
    """Every field of a file; change one and see what a reader says."""

    text: bytes = b"a prompt that was read before"
    n: int = 9
    context: int = 600
    version: int = 2
    chunk: int = 77
    raw_cap: int = 256
    window: int = WINDOW
    comp_cap: int = 152
    layers: int = len(RATIOS)
    head: int = HEAD
    index_head: int = INDEX_HEAD
    vocab: int = VOCAB
    live: int | None = None
    counts: list[int] | None = None
    index_counts: list[int] | None = None
    payload_magic: bytes = b"DSV4"
    seed: int = 1
    first_token: int | None = None
    # the header around it
    magic: bytes = b"KVC"
    kvc_version: int = 1
    quant: int = 2
    reason: int = 1
    flags: int = 0
    model: int = 0
    header_tokens: int | None = None
    hits: int = 3
    abi: int = 2
    created: int = 1_700_000_000
    used: int = 1_700_000_001
    trailer: bytes = b""
    payload_tail: bytes = b""
    ours: bytes = field(default=b"\0\0\0")  # bytes 21 to 23

    def arrays(self) -> list[list[np.ndarray]]:
        rng = np.random.default_rng(self.seed)
        shapes = [
            [(min(WINDOW, self.n), HEAD)],
            [
                (min(WINDOW, self.n), HEAD),
                (self.n // 4, HEAD),
                (8, 2 * HEAD),
                (8, 2 * HEAD),
                (self.n // 4, INDEX_HEAD),
                (8, 2 * INDEX_HEAD),
                (8, 2 * INDEX_HEAD),
            ],
            [(min(WINDOW, self.n), HEAD), (self.n // 128, HEAD), (128, HEAD), (128, HEAD)],
        ]
        return [[rng.standard_normal(shape).astype("<f4") for shape in layer] for layer in shapes]

    def tokens(self) -> list[int]:
        ids = [(7 * i + self.seed) % VOCAB for i in range(self.n)]
        return ids if self.first_token is None else [self.first_token, *ids[1:]]

    def logits(self) -> np.ndarray:
        return np.linspace(-1, 1, VOCAB).astype("<f4")

    def payload(self) -> bytes:
        live = min(WINDOW, self.n) if self.live is None else self.live
        counts = self.counts or [0, self.n // 4, self.n // 128]
        index_counts = self.index_counts or [0, self.n // 4, 0]
        head = self.payload_magic + words(
            self.version,
            self.context,
            self.chunk,
            self.raw_cap,
            self.window,
            self.comp_cap,
            self.n,
            self.layers,
            self.head,
            self.index_head,
            self.vocab,
            live,
        )
        body = b"".join(array.tobytes() for layer in self.arrays() for array in layer)
        return (
            head
            + words(*self.tokens())
            + self.logits().tobytes()
            + words(*counts)
            + words(*index_counts)
            + body
            + self.payload_tail
        )

    def to_bytes(self) -> bytes:
        payload = self.payload()
        tokens = self.n if self.header_tokens is None else self.header_tokens
        head = (
            self.magic
            + bytes([self.kvc_version, self.quant, self.reason, self.flags, self.model])
            + words(tokens, self.hits, self.context)
            + bytes([self.abi])
            + self.ours
            + number(self.created, 8)
            + number(self.used, 8)
            + number(len(payload), 8)
        )
        return head + words(len(self.text)) + self.text + payload + self.trailer

    @property
    def name(self) -> str:
        return hashlib.sha1(self.text).hexdigest()


def tool_map(*entries: tuple[bytes, bytes], count: int | None = None, version: int = 1) -> bytes:
    head = b"KTM" + bytes([version]) + words(len(entries) if count is None else count)
    return head + b"".join(words(len(i), len(block)) + i + block for i, block in entries)


def read_file(data: bytes, ratios: Sequence[int] = RATIOS) -> dict[str, Any]:
    """Everything in a file of layers that compress so, as the sheets say it lies there."""
    u = lambda at, size: int.from_bytes(data[at : at + size], "little")  # noqa: E731
    found: dict[str, Any] = {
        "magic": data[:3],
        "version": data[3],
        "quant": data[4],
        "reason": data[5],
        "flags": data[6],
        "model": data[7],
        "tokens": u(8, 4),
        "hits": u(12, 4),
        "context": u(16, 4),
        "abi": data[20],
        "ours": data[21:24],
        "created": u(24, 8),
        "used": u(32, 8),
        "text": data[52 : 52 + u(48, 4)],
    }
    begin = 52 + u(48, 4)
    end = begin + u(40, 8)
    found["dsv4"] = [u(begin + 4 * i, 4) for i in range(13)]
    at = begin + 52
    n, layers, head, index_head, vocab, live = (found["dsv4"][i] for i in (7, 8, 9, 10, 11, 12))

    def take(count: int, kind: str) -> np.ndarray:
        nonlocal at
        at += 4 * count
        return np.frombuffer(data[at - 4 * count : at], kind)

    found["ids"], found["logits"] = take(n, "<u4"), take(vocab, "<f4")
    found["counts"], found["index_counts"] = take(layers, "<u4"), take(layers, "<u4")
    found["layers"] = []
    for i, ratio in enumerate(ratios):
        arrays = [take(live * head, "<f4")]
        if ratio:
            state = (128 * head) if ratio == 128 else 8 * 2 * head
            arrays += [take(int(found["counts"][i]) * head, "<f4"), take(state, "<f4"), take(state, "<f4")]
        if ratio == 4:
            state = 8 * 2 * index_head
            arrays += [take(int(found["index_counts"][i]) * index_head, "<f4"), take(state, "<f4"), take(state, "<f4")]
        found["layers"].append(arrays)
    assert at == end, "the payload is not as long as its header says"
    found["trailer"] = data[end:]
    return found
