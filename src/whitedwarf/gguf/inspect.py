"""What a GGUF model says about itself: for people as text, for programs as a dictionary.

Promises: touches no tensor data, and any file that opens can be summarised, whatever its architecture and whatever
keys it lacks.
Does not judge: whether the model can run is the business of `hparams.py` and `census.py`.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from whitedwarf.gguf.metadata import MetadataValue
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.gguf.types import GgmlType

# Group -> the keys shown for it, after the architecture's prefix (spec: model.md 4.2), with the words we show them by.
GROUPS: dict[str, dict[str, str]] = {
    "layers": {"block_count": "layers", "embedding_length": "width", "vocab_size": "vocabulary"},
    "context": {
        "context_length": "tokens",
        "rope.freq_base": "rope base",
        "rope.scaling.factor": "scaling factor",
        "rope.scaling.original_context_length": "original tokens",
    },
    "attention": {
        "attention.head_count": "heads",
        "attention.key_length": "head width",
        "attention.q_lora_rank": "q rank",
        "attention.output_lora_rank": "output rank",
        "attention.output_group_count": "output groups",
        "attention.sliding_window": "window",
        "attention.compress_ratios": "compression",
    },
    "indexer": {
        "attention.indexer.head_count": "heads",
        "attention.indexer.key_length": "key width",
        "attention.indexer.top_k": "top k",
    },
    "experts": {
        "expert_count": "experts",
        "expert_used_count": "used",
        "expert_shared_count": "shared",
        "expert_feed_forward_length": "width",
        "hash_layer_count": "hash layers",
    },
    "streams": {"hyper_connection.count": "streams", "hyper_connection.sinkhorn_iterations": "Sinkhorn iterations"},
}
SizeValue = int | float | str | dict[str, int]


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """All tensors of one type together."""

    type: str
    num_tensors: int
    num_elements: int
    size_bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.size_bytes / self.num_elements


@dataclass(frozen=True, slots=True)
class Summary:
    """What `gguf inspect` shows."""

    paths: tuple[str, ...]
    name: str
    architecture: str
    version: int
    num_keys: int
    num_tensors: int
    num_elements: int
    tensor_bytes: int
    file_bytes: int
    groups: dict[str, dict[str, SizeValue]]  # e.g. {"attention": {"heads": 64}}; keys that the file lacks are left out
    types: tuple[TypeTotal, ...]  # largest first

    def to_json(self) -> dict[str, object]:
        """The same as values that the json module writes."""
        values = dataclasses.asdict(self)
        rows = [{**dataclasses.asdict(row), "bits_per_weight": round(row.bits_per_weight, 4)} for row in self.types]
        return {**values, "paths": list(self.paths), "types": rows}


def summary(model: GgufFile) -> Summary:
    """Summarise an open model."""
    tensors = model.tensors.values()
    architecture = _text(model.metadata.get("general.architecture"))
    return Summary(
        paths=tuple(str(path) for path in model.paths),
        name=_text(model.metadata.get("general.name")),
        architecture=architecture,
        version=model.version,
        num_keys=len(model.metadata),
        num_tensors=len(tensors),
        num_elements=sum(info.num_elements for info in tensors),
        tensor_bytes=sum(info.size_bytes for info in tensors),
        file_bytes=sum(model.shard_bytes),
        groups=_groups(model, architecture),
        types=_type_totals(model),
    )


def render(summary: Summary) -> str:
    """The summary as lines of text, without a final newline."""
    rows = [
        ("file", summary.paths[0] + (f" and {len(summary.paths) - 1} more shards" if len(summary.paths) > 1 else "")),
        ("name", summary.name),
        ("architecture", summary.architecture),
        ("GGUF", f"version {summary.version}, {summary.num_keys} keys, {summary.num_tensors} tensors"),
        *((group, _joined(values)) for group, values in summary.groups.items()),
        ("size", f"{size_text(summary.tensor_bytes)} of tensors, {size_text(summary.file_bytes)} in all"),
    ]
    lines = [f"{label:<13} {_printable(text)}" for label, text in rows]
    return "\n".join([*lines, "", *_table(summary)])


def size_text(size_bytes: int) -> str:
    """'1.50 GiB', or plain bytes below one KiB."""
    power = min(max(size_bytes.bit_length() - 1, 0) // 10, 4)
    return f"{size_bytes / 1024**power:.2f} {'KMGT'[power - 1]}iB" if power else f"{size_bytes} bytes"


def _groups(model: GgufFile, architecture: str) -> dict[str, dict[str, SizeValue]]:
    groups: dict[str, dict[str, SizeValue]] = {}
    for group, keys in GROUPS.items():
        found = {label: model.metadata.get(f"{architecture}.{key}") for key, label in keys.items()}
        if values := {label: _size(value) for label, value in found.items() if value is not None}:
            groups[group] = values
    return groups


def _size(value: MetadataValue) -> SizeValue:
    """A number or text as it is; an array as how many times each of its values occurs."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return value if math.isfinite(value) else str(value)
    if not isinstance(value, np.ndarray):
        return f"{len(value)} values"
    values, counts = np.unique(value, return_counts=True)
    return {str(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def _type_totals(model: GgufFile) -> tuple[TypeTotal, ...]:
    totals = []
    for type_ in GgmlType:
        infos = [info for info in model.tensors.values() if info.type is type_]
        if infos:
            elements, size_bytes = sum(i.num_elements for i in infos), sum(i.size_bytes for i in infos)
            totals.append(TypeTotal(type_.name, len(infos), elements, size_bytes))
    return tuple(sorted(totals, key=lambda total: -total.size_bytes))


def _text(value: MetadataValue | None) -> str:
    return value if isinstance(value, str) else "unknown"


def _printable(text: str) -> str:
    """A file may not send control sequences to the terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _joined(values: dict[str, SizeValue]) -> str:
    return ", ".join(f"{label} {_shown(value)}" for label, value in values.items())


def _shown(value: SizeValue) -> str:
    if isinstance(value, dict):
        return " ".join(f"{ratio} (x{count})" for ratio, count in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(summary: Summary) -> Iterable[str]:
    yield f"{'type':<10}{'tensors':>9}{'elements':>19}{'size':>14}{'bits/weight':>13}"
    for row in summary.types:
        size = size_text(row.size_bytes)
        yield f"{row.type:<10}{row.num_tensors:>9}{row.num_elements:>19,}{size:>14}{row.bits_per_weight:>13.2f}"
