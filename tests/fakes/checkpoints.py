"""Release checkpoints for tests: the tiny oracle's as a value to bend, and random ones of any small shape."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.census import ExpectedTensor, expected_tensors, mtp_tensors
from whitedwarf.gguf.codecs import encode
from whitedwarf.gguf.hparams import from_release_config
from whitedwarf.gguf.names import EXPERT_PLACE, canonical_to_release
from whitedwarf.gguf.safetensors_source import SourceTensor
from whitedwarf.gguf.types import GgmlType

TINY = Path(__file__).parent.parent / "golden" / "oracle" / "tinyA"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Stored:
    """A tensor as safetensors has it."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass
class Checkpoint:
    """A release folder before it is written; change what you like."""

    config: dict[str, Any]
    tensors: dict[str, Stored]
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path, num_shards: int = 0) -> Path:
        """Write it; with shards also an index."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        if not num_shards:
            write_safetensors(folder / "model.safetensors", self.tensors)
            return folder
        names, weight_map = sorted(self.tensors), {}
        for shard in range(num_shards):
            file_name = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
            chosen = names[shard::num_shards]
            write_safetensors(folder / file_name, {name: self.tensors[name] for name in chosen})
            weight_map |= dict.fromkeys(chosen, file_name)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        return folder

    def renamed(self, old: str, new: str) -> "Checkpoint":
        """The same with every `old` in a tensor's name replaced."""
        return Checkpoint(
            self.config, {name.replace(old, new): tensor for name, tensor in self.tensors.items()}, self.files
        )


def read_safetensors(path: Path) -> dict[str, Stored]:
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    return {
        name: Stored(
            entry["dtype"],
            tuple(entry["shape"]),
            raw[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]],
        )
        for name, entry in header.items()
    }


def write_safetensors(path: Path, tensors: dict[str, Stored]) -> None:
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(tensor.data)],
        }
        offset += len(tensor.data)
    write_raw_safetensors(path, json.dumps(header).encode(), b"".join(tensor.data for tensor in tensors.values()))


def write_raw_safetensors(path: Path, header: bytes, data: bytes = b"") -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def tiny_checkpoint(form: str = "src") -> Checkpoint:
    """The oracle's tinyA: `src` is FP8 and FP4, `hf` the same numbers as BF16 and F32."""
    folder = TINY / form
    return Checkpoint(
        json.loads((folder / "config.json").read_text()),
        read_safetensors(folder / "model.safetensors"),
        {name: (folder / name).read_bytes() for name in TOKENIZER_FILES},
    )


def random_checkpoint(seed: int = 0, with_mtp: bool = False, **config: Any) -> Checkpoint:
    """Random numbers, BF16 matrices and F32 vectors, in the shape of tinyA's config with `config` changed."""
    tiny = tiny_checkpoint("hf")
    tiny.config |= config
    hp = from_release_config(tiny.config)
    rng = np.random.default_rng(seed)
    tensors: dict[str, Stored] = {}
    for name, want in (expected_tensors(hp) | (mtp_tensors(hp) if with_mtp else {})).items():
        if not want.required:
            continue
        release = canonical_to_release(name) or ""
        is_routed = EXPERT_PLACE in release
        for expert in range(want.shape[0]) if is_routed else (0,):
            shape = want.shape[1:] if is_routed else want.shape
            tensors[release.replace(EXPERT_PLACE, str(expert))] = _random(rng, want.kind, shape, hp.num_experts)
    return Checkpoint(tiny.config, tensors, tiny.files)


def floats(values: NDArray[np.float32], dtype: str = "BF16") -> Stored:
    return Stored(dtype, values.shape, encode(values, GgmlType[dtype]).tobytes())


def _random(rng: np.random.Generator, kind: str, shape: tuple[int, ...], num_experts: int) -> Stored:
    if kind == "indices":
        return Stored("I64", shape, rng.integers(0, num_experts, shape, np.int64).tobytes())
    values = (rng.standard_normal(shape) * 0.05).astype(np.float32)
    return floats(values, "F32" if kind == "vector" else "BF16")


def copy_tiny(form: str, folder: Path) -> Path:
    """The oracle's files themselves, to be damaged."""
    return Path(shutil.copytree(TINY / form, folder))


@dataclass(frozen=True)
class ListedSource:
    """The names, types and shapes of a checkpoint without its bytes: enough to plan with."""

    tensors: dict[str, SourceTensor]
    folder: Path = Path("listed")


def listed_release(config: dict[str, Any]) -> ListedSource:
    """What DeepSeek ships for `config` (model.md 6): FP4 experts, FP8 projections, MTP block included."""
    hp = from_release_config(config)
    listed: dict[str, SourceTensor] = {}
    for name, want in (expected_tensors(hp) | mtp_tensors(hp)).items():
        if want.required:
            release = canonical_to_release(name) or ""
            for expert in range(hp.num_experts) if EXPERT_PLACE in release else (0,):
                _list(listed, release.replace(EXPERT_PLACE, str(expert)), want)
    return ListedSource(listed)


def _list(listed: dict[str, SourceTensor], release: str, want: ExpectedTensor) -> None:
    def add(name: str, dtype: str, *shape: int) -> None:
        listed[name] = SourceTensor(name, dtype, shape, Path("listed.safetensors"), 0, 0)

    scale = release.removesuffix(".weight") + ".scale"
    rows, columns = want.shape[-2:] if len(want.shape) > 1 else (1, want.shape[0])
    if ".experts." in release:
        add(release, "I8", rows, columns // 2)
        add(scale, "F8_E8M0", rows, columns // 32)
    elif any(part in release for part in (".wq_", "attn.wkv", ".wo_", "shared_experts", "e_proj", "h_proj")):
        add(release, "F8_E4M3", rows, columns)
        add(scale, "F8_E8M0", -(-rows // 128), -(-columns // 128))
    elif want.kind == "indices":
        add(release, "I64", *want.shape)
    else:
        is_exact = want.kind == "vector" or "hc_" in release or release.endswith("ape")
        add(release, "F32" if is_exact else "BF16", *want.shape)
