"""Small GGUF files for tests: sound ones through our writer, and raw bytes for broken ones."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.metadata import TypedMetadata, encode_value
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

SMALL_METADATA: TypedMetadata = {
    "general.architecture": (ValueType.STRING, "deepseek4"),
    "general.name": (ValueType.STRING, "small"),
    "deepseek4.block_count": (ValueType.UINT32, 2),
    "deepseek4.expert_count": (ValueType.UINT32, 8),
    "tokenizer.ggml.tokens": (ValueType.ARRAY, ["a", "Ġb", "<｜User｜>"]),
}
SMALL_PLAN = [
    PlannedTensor("token_embd.weight", GgmlType.F16, (3, 64)),
    PlannedTensor("blk.0.ffn_gate_tid2eid.weight", GgmlType.I32, (3, 2)),
    PlannedTensor("blk.0.attn_q_a.weight", GgmlType.Q8_0, (4, 64)),
    PlannedTensor("blk.0.attn_sinks.weight", GgmlType.F32, (5,)),
    PlannedTensor("blk.0.ffn_down_exps.weight", GgmlType.Q2_K, (2, 2, 256)),
]


def tensor_bytes(tensor: PlannedTensor, seed: int = 0) -> np.ndarray:
    """Bytes of a sound tensor: every scale 0 or small, ids of experts below 8."""
    data = np.random.default_rng(seed).integers(0, 8, tensor.size_bytes, dtype=np.uint8)
    if tensor.type is GgmlType.I32:
        data.reshape(-1, 4)[:, 1:] = 0
    return data


def write_model(
    path: Path,
    metadata: TypedMetadata = SMALL_METADATA,
    plan: Sequence[PlannedTensor] = SMALL_PLAN,
    num_shards: int = 1,
) -> tuple[Path, ...]:
    """A sound file, or sound shards; gives their paths."""
    with GgufWriter(path, metadata, plan, num_shards=num_shards) as writer:
        for seed, tensor in enumerate(plan):
            writer.write(tensor.name, tensor_bytes(tensor, seed))
    return writer.paths


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor description that may lie."""

    name: bytes = b"w"
    dimensions: tuple[int, ...] = (8,)
    type: int = int(GgmlType.F32)
    offset: int = 0
    num_dimensions: int | None = None

    def encoded(self) -> bytes:
        count = len(self.dimensions) if self.num_dimensions is None else self.num_dimensions
        dimensions = struct.pack(f"<{len(self.dimensions)}Q", *self.dimensions)
        return string(self.name) + struct.pack("<I", count) + dimensions + struct.pack("<IQ", self.type, self.offset)


def string(text: bytes, length: int | None = None) -> bytes:
    """A GGUF string whose length may lie."""
    return struct.pack("<Q", len(text) if length is None else length) + text


def key(name: bytes, type_: int, value: bytes) -> bytes:
    """One metadata entry."""
    return string(name) + struct.pack("<I", type_) + value


def architecture(name: str = "deepseek4") -> bytes:
    """The entry every sound file has."""
    return key(b"general.architecture", ValueType.STRING, encode_value(ValueType.STRING, name))


def raw_file(
    keys: Sequence[bytes] = (),
    tensors: Sequence[RawTensor] = (),
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_keys: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    """The bytes of a file with alignment 32, as broken as the caller likes."""
    counts = (len(tensors) if num_tensors is None else num_tensors, len(keys) if num_keys is None else num_keys)
    head = magic + struct.pack("<I", version) + struct.pack("<QQ", *counts) + b"".join(keys)
    head += b"".join(tensor.encoded() for tensor in tensors)
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + data
