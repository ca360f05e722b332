"""DeepSeek's release checkpoint -> GGUF with canonical names, one tensor piece at a time.

Promises: whatever names, shapes and types can show is refused before the first byte is written; the target appears
complete or not at all; beside the mapped files memory holds a few row pieces, whatever the size of the model. FP4
experts become MXFP4 bit for bit. It knows neither the command line nor where checkpoints come from.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.convert_plan import ConversionPlan, Outtype, PlannedTensor, TypeChoice, file_type, plan_conversion
from whitedwarf.gguf.convert_tokenizer import tokenizer_metadata
from whitedwarf.gguf.encoder import Encoder, make_encoder
from whitedwarf.gguf.hparams import Hyperparameters, from_release_config, to_metadata
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
    row_pieces,
)
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

_QUANTIZATION_VERSION = 2  # of ggml's block formats; llama.cpp refuses quantised files without it


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What to make of a checkpoint."""

    outtype: Outtype = "native"
    choose_type: TypeChoice | None = None  # overrides the outtype, tensor by tensor
    include_mtp: bool | None = None  # None: if there is a classic MTP block
    name: str | None = None  # general.name; None: the folder's name
    license: str | None = None
    num_shards: int = 1


@dataclass(frozen=True, slots=True)
class ConvertProgress:
    """How far a conversion is; sent after every piece."""

    tensor: str
    written_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was made."""

    paths: tuple[Path, ...]
    num_tensors: int
    size_bytes: int
    notes: tuple[str, ...]  # what of the checkpoint is not in it, and why


def convert(
    folder: Path,
    target: Path,
    options: ConvertOptions | None = None,
    on_progress: Callable[[ConvertProgress], None] | None = None,
) -> ConvertReport:
    """Convert the checkpoint in `folder` to `target`.

    Raises FileFormatError for a checkpoint that is not a complete DeepSeek V4 release, UsageError for types or targets
    that cannot be, WhitedwarfError when the disk does not take it.
    """
    options = options or ConvertOptions()
    config = read_json(folder / "config.json")
    hp = from_release_config(config)
    with SafetensorsSource(folder) as source:
        plan = plan_conversion(source, hp, options.outtype, options.choose_type, options.include_mtp)
        metadata = {
            **checkpoint_metadata(folder, config, hp, options),
            "general.file_type": (ValueType.UINT32, file_type(plan.tensors)),
        }
        entries = [(tensor.name, tensor.type, tensor.shape) for tensor in plan.tensors]
        writer = _writer(folder, target, metadata, entries, options.num_shards, source.paths)
        with writer:
            _write(source, hp, plan, writer, on_progress)
    return ConvertReport(writer.paths, len(plan.tensors), writer.size_bytes, plan.notes)


def _writer(
    folder: Path,
    target: Path,
    metadata: TypedMetadata,
    entries: list[tuple[str, GgmlType, tuple[int, ...]]],
    num_shards: int,
    shards: tuple[Path, ...],
) -> GgufWriter:
    sources = [*shards, *folder.glob("*.json"), *folder.glob("*.jinja")]
    try:
        return GgufWriter(target, metadata, entries, num_shards=num_shards, sources=sources)
    except ValueError as error:  # JSON can spell texts that are no Unicode
        raise FileFormatError(f"{folder}: cannot be written as GGUF: {error}") from error


def checkpoint_metadata(
    folder: Path, config: Mapping[str, object], hp: Hyperparameters, options: ConvertOptions
) -> TypedMetadata:
    """Everything but `general.file_type`, which depends on what is made of the tensors."""
    license_entry = {} if options.license is None else {"general.license": (ValueType.STRING, options.license)}
    return {
        **to_metadata(hp),
        "general.type": (ValueType.STRING, "model"),
        "general.name": (ValueType.STRING, options.name or folder.resolve().name),
        **license_entry,
        "general.file_type": (ValueType.UINT32, 0),
        "general.quantization_version": (ValueType.UINT32, _QUANTIZATION_VERSION),
        **tokenizer_metadata(folder, config, hp.vocab_size),
    }


def _write(
    source: SafetensorsSource,
    hp: Hyperparameters,
    plan: ConversionPlan,
    writer: GgufWriter,
    on_progress: Callable[[ConvertProgress], None] | None,
) -> None:
    written_bytes = 0
    encoder = make_encoder()
    for tensor in plan.tensors:
        for chunk in _chunks(source, tensor, hp.num_experts, encoder):
            writer.write(tensor.name, chunk)
            written_bytes += len(chunk)
            if on_progress is not None:
                on_progress(ConvertProgress(tensor.name, written_bytes, writer.size_bytes))


def _chunks(
    source: SafetensorsSource, tensor: PlannedTensor, num_experts: int, encoder: Encoder
) -> Iterator[NDArray[np.uint8]]:
    """The bytes of one tensor in order: expert by expert, row piece by row piece."""
    for part in tensor.parts:
        energy = _column_energy(source, part) if tensor.type is GgmlType.IQ2_XXS else None
        for rows in row_pieces(part):
            raw = _stored(source, part, rows, tensor.type, num_experts)
            yield _encoded(source, part, rows, tensor.type, energy, encoder) if raw is None else raw
        source.forget(part.weight)


def _stored(
    source: SafetensorsSource, part: SourcePart, rows: slice, type_: GgmlType, num_experts: int
) -> NDArray[np.uint8] | None:
    """Bytes that need no look at the numbers; None where they do."""
    if part.encoding is Encoding.INTEGERS:
        return read_integers(source, part, rows, num_experts)
    if part.encoding is Encoding.FP4 and type_ is GgmlType.MXFP4:
        return read_mxfp4(source, part, rows)
    if part.encoding is Encoding.PLAIN and PLAIN_TYPES[part.weight.dtype] is type_:
        return read_bytes(source, part, rows)
    return None


def _encoded(
    source: SafetensorsSource,
    part: SourcePart,
    rows: slice,
    type_: GgmlType,
    weights: NDArray[np.float32] | None,
    encoder: Encoder,
) -> NDArray[np.uint8]:
    try:
        return encoder.encode(read_floats(source, part, rows), type_, weights)
    except ValueError as error:
        raise FileFormatError(
            f"{part.weight.path}: {part.weight.name} cannot be written as {type_.name}: {error}"
        ) from error


def _column_energy(source: SafetensorsSource, part: SourcePart) -> NDArray[np.float32]:
    """Sum of squares per column over all rows: IQ2_XXS wants importances, and a piece sees only its own rows."""
    total = np.zeros(part.columns, np.float64)
    for rows in row_pieces(part):
        values = read_floats(source, part, rows)
        total += np.einsum("rc,rc->c", values, values)
    return total.astype(np.float32)
