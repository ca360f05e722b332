"""DeepSeek's release checkpoint as a source of tensors to quantise (model.md 6).

Promises what `tensor_source` says: FP4 experts are MXFP4 without a look at their numbers, plain floats are copied, and
pages of the mapped shards are given back piece by piece.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whitedwarf.gguf.convert import ConvertOptions, checkpoint_metadata
from whitedwarf.gguf.convert_plan import PlannedTensor, plan_conversion
from whitedwarf.gguf.hparams import from_release_config
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.safetensors_source import SafetensorsSource, read_json
from whitedwarf.gguf.source_values import (
    PLAIN_TYPES,
    Encoding,
    SourcePart,
    read_bytes,
    read_floats,
    read_integers,
    read_mxfp4,
)
from whitedwarf.gguf.tensor_source import Bytes, Floats, decoder
from whitedwarf.gguf.types import GgmlType

_SHORT_NAMES = {Encoding.FP4: "FP4", Encoding.FP8: "FP8"}
_REPACKED = ((Encoding.INTEGERS, GgmlType.I32), (Encoding.FP4, GgmlType.MXFP4))


@dataclass(frozen=True, slots=True)
class CheckpointTensor:
    """One tensor, made of one weight or of one weight per expert."""

    planned: PlannedTensor
    source: SafetensorsSource
    num_experts: int
    decode: Callable[[Bytes, GgmlType, tuple[int, int]], Floats]

    @property
    def name(self) -> str:
        """GGUF's name, not the checkpoint's."""
        return self.planned.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.planned.shape

    @property
    def type_name(self) -> str:
        part = self.planned.parts[0]
        return _SHORT_NAMES.get(part.encoding, part.weight.dtype)

    @property
    def size_bytes(self) -> int:
        stored = (source for part in self.planned.parts for source in (part.weight, part.scale) if source)
        return sum(source.size_bytes for source in stored)

    @property
    def base_type(self) -> GgmlType:
        return self.planned.type

    @property
    def is_low_bit(self) -> bool:
        """FP4 is what the model was trained in, so it is the source and not a loss."""
        return False

    def has_bytes_of(self, type: GgmlType) -> bool:
        """Integers, FP4 as MXFP4, and floats of the same kind."""
        part = self.planned.parts[0]
        if part.encoding is Encoding.PLAIN:
            return PLAIN_TYPES[part.weight.dtype] is type
        return (part.encoding, type) in _REPACKED

    def raw(self, matrix: int, rows: slice, type: GgmlType) -> Bytes:
        """Stored bytes, repacked where the format asks for it."""
        part = self.planned.parts[matrix]
        if part.encoding is Encoding.INTEGERS:
            return read_integers(self.source, part, rows, self.num_experts)
        data = read_mxfp4(self.source, part, rows) if part.encoding is Encoding.FP4 else self._copied(part, rows)
        self._forget(part)
        return data.reshape(-1)

    def floats(self, matrix: int, rows: slice) -> Floats:
        """Scales applied."""
        part = self.planned.parts[matrix]
        if part.encoding is Encoding.FP4:
            shape = (rows.stop - rows.start, part.columns)
            values = self.decode(read_mxfp4(self.source, part, rows).reshape(-1), GgmlType.MXFP4, shape)
        else:
            values = np.array(read_floats(self.source, part, rows))
        self._forget(part)
        return values

    def _copied(self, part: SourcePart, rows: slice) -> Bytes:
        return np.array(read_bytes(self.source, part, rows))

    def _forget(self, part: SourcePart) -> None:
        self.source.forget(part.weight)


class CheckpointSource:
    """An open checkpoint folder."""

    def __init__(self, source: SafetensorsSource, include_mtp: bool | None = None) -> None:
        config = read_json(source.folder / "config.json")
        hp = from_release_config(config)
        plan = plan_conversion(source, hp, "native", include_mtp=include_mtp)
        decode = decoder()
        self.paths: tuple[Path, ...] = source.paths
        self.notes = plan.notes
        self.tensors: Mapping[str, CheckpointTensor] = {
            tensor.name: CheckpointTensor(tensor, source, hp.num_experts, decode) for tensor in plan.tensors
        }
        self._metadata = checkpoint_metadata(source.folder, config, hp, ConvertOptions())

    def metadata(self) -> TypedMetadata:
        """As the converter would write it."""
        return dict(self._metadata)
