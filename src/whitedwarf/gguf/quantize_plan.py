"""What a quantisation will write, decided before any work: every tensor, where from, as which type, weighed by what.

Promises that a plan which comes back can be carried out as far as names, shapes and types show. Reads tensor data of no
file; of an importance matrix only what it needs to know that it fits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.census import HasTypeAndShape
from whitedwarf.gguf.codecs import ENCODABLE_TYPES
from whitedwarf.gguf.convert_plan import FILE_TYPES
from whitedwarf.gguf.layout import SPLIT_KEYS, Layout, plan_layouts
from whitedwarf.gguf.metadata import MetadataValue, TypedMetadata
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.recipes import TypeRules, choose, fitting, unused_prefixes
from whitedwarf.gguf.tensor_source import Floats, ModelSource, SourceTensor, rows_and_columns
from whitedwarf.gguf.types import GgmlType, ValueType

Weighing = Literal["copy", "none", "energy", "imatrix"]

SEARCHED_TYPES = frozenset({GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS})
_SMALL_TYPES = SEARCHED_TYPES | {GgmlType.MXFP4}
_SHOWN = 3
_IMATRIX_PREFIX = "quantize.imatrix."


class Importances(Protocol):
    """What is needed of an importance matrix (`importance.Imatrix`)."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def dataset(self) -> str: ...
    @property
    def chunks(self) -> int: ...

    def weights(self, tensor: str, columns: int, expert: int | None = None, experts: int = 1) -> Floats | None:
        """(columns,) or None where it knows nothing of them."""


@dataclass(frozen=True, slots=True)
class NamedImportances:
    """An importance matrix and the file that it is."""

    matrix: Importances
    path: Path


class Template(Protocol):
    """A GGUF file that gives metadata, order and types."""

    @property
    def tensors(self) -> Mapping[str, HasTypeAndShape]: ...

    def typed_metadata(self) -> TypedMetadata: ...


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """What was asked for."""

    rules: TypeRules
    importances: NamedImportances | None = None
    is_strict: bool = False  # every tensor that could use importances must have them
    allow_requantize: bool = False


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """One tensor to write."""

    name: str  # as in the new file
    canonical: str
    source: SourceTensor
    type: GgmlType
    weighing: Weighing

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def size_bytes(self) -> int:
        matrices, rows, columns = rows_and_columns(self.shape)
        return matrices * rows * self.type.row_bytes(columns)


@dataclass(frozen=True, slots=True)
class QuantizePlan:
    """All tensors in the order of the file, its layout, and what the user should know."""

    layout: Layout
    tensors: tuple[QuantizedTensor, ...]
    importances: NamedImportances | None
    notes: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return self.layout.size_bytes


def plan_quantize(
    source: ModelSource, target: Path, options: QuantizeOptions, template: Template | None = None
) -> QuantizePlan:
    """Decide everything. Raises UsageError for types that cannot be, FileFormatError for files that do not fit."""
    notes = list(source.notes)
    names = _names(source, template, notes)
    if slips := unused_prefixes([canonical_name(name) for name, _ in names], options.rules):
        raise UsageError(f"--tensor-type: no tensor's name begins with {', '.join(slips)}; see gguf inspect --tensors")
    tensors = [_planned(name, source.tensors[canonical_name(name)], base, options) for name, base in names]
    if not options.allow_requantize:
        _refuse_requantizing(tensors)
    _note_importances(tensors, options, notes)
    metadata = _metadata(source, template, tensors, options.importances)
    entries = [(tensor.name, tensor.type, tensor.shape) for tensor in tensors]
    try:
        layout = plan_layouts(target, metadata, entries)[0]
    except ValueError as error:
        raise FileFormatError(f"{source.paths[0]}: cannot be written as GGUF: {error}") from error
    return QuantizePlan(layout, tuple(tensors), options.importances, tuple(notes))


def _names(source: ModelSource, template: Template | None, notes: list[str]) -> list[tuple[str, GgmlType]]:
    """Names of the new file in order, each with the type it has unless something else is asked for."""
    if template is None:
        return [(tensor.name, tensor.base_type) for tensor in source.tensors.values()]
    missing, names, seen = [], [], set[str]()
    for name, info in template.tensors.items():
        tensor = source.tensors.get(canonical_name(name))
        if canonical_name(name) in seen:
            raise FileFormatError(f"{name} is in the template twice, in two dialects; expected it once")
        seen.add(canonical_name(name))
        if tensor is None:
            missing.append(name)
        elif tuple(info.shape) != tuple(tensor.shape):
            raise FileFormatError(
                f"{name} has shape {list(tensor.shape)} in {source.paths[0]}, expected {list(info.shape)} as in the "
                "template: they are of different models"
            )
        else:
            names.append((name, info.type))
    if missing:
        raise FileFormatError(f"{source.paths[0]}: {_some(missing)} of the template missing; expected the same model")
    left = source.tensors.keys() - {canonical_name(name) for name, _ in names}
    if left:
        notes.append(f"{len(left)} tensors that the template does not have are left out: {_some(sorted(left))}")
    return names


def _planned(name: str, tensor: SourceTensor, base: GgmlType, options: QuantizeOptions) -> QuantizedTensor:
    canonical = canonical_name(name)
    type_ = fitting(choose(canonical, tensor.shape, base, options.rules), canonical, tensor.shape[-1])
    if tensor.has_bytes_of(type_):
        return QuantizedTensor(name, canonical, tensor, type_, "copy")
    if GgmlType.I32 in (type_, tensor.base_type):
        raise UsageError(f"{name} holds {tensor.type_name}, which cannot become {type_.name}; leave its type alone")
    if type_ not in ENCODABLE_TYPES:
        raise UsageError(f"{name}: no encoder for {type_.name}, the template's type; choose another type for it")
    return QuantizedTensor(name, canonical, tensor, type_, _weighing(canonical, tensor, type_, options.importances))


def _weighing(canonical: str, tensor: SourceTensor, type_: GgmlType, importances: NamedImportances | None) -> Weighing:
    if type_ not in SEARCHED_TYPES:
        return "none"
    if importances is not None and _fits(canonical, tensor, importances.matrix):
        return "imatrix"
    return "energy" if type_ is GgmlType.IQ2_XXS else "none"


def _fits(canonical: str, tensor: SourceTensor, importances: Importances) -> bool:
    """Whether it knows the tensor: every expert of it. Raises FileFormatError for an entry of another size."""
    return all(
        weights_of(importances, canonical, tensor.shape, matrix) is not None
        for matrix in range(rows_and_columns(tensor.shape)[0])
    )


def weights_of(importances: Importances, canonical: str, shape: tuple[int, ...], matrix: int) -> Floats | None:
    """Means of squares for the columns of one matrix of a tensor."""
    matrices, _, columns = rows_and_columns(shape)
    return importances.weights(canonical, columns, matrix if len(shape) > 2 else None, matrices)


def _refuse_requantizing(tensors: list[QuantizedTensor]) -> None:
    again = [tensor for tensor in tensors if tensor.weighing != "copy" and tensor.source.is_low_bit]
    lossy = [tensor for tensor in again if tensor.type in _SMALL_TYPES]
    if lossy:
        first = lossy[0]
        raise UsageError(
            f"{first.name} is {first.source.type_name} already and would become {first.type.name} "
            f"({len(lossy)} such tensors): the losses add up. Quantise the release checkpoint or a file of higher "
            "precision, or insist with --allow-requantize."
        )


def _note_importances(tensors: list[QuantizedTensor], options: QuantizeOptions, notes: list[str]) -> None:
    if options.importances is None:
        return
    without = [
        tensor.name for tensor in tensors if tensor.type in SEARCHED_TYPES and tensor.weighing in ("none", "energy")
    ]
    if not without:
        return
    path = options.importances.path
    if options.is_strict:
        raise FileFormatError(
            f"{path}: no entry for {_some(without)}; collect one with this model, or drop the strictness"
        )
    notes.append(f"{path} has no entry for {_some(without)}: quantised without")


def _metadata(
    source: ModelSource,
    template: Template | None,
    tensors: list[QuantizedTensor],
    importances: NamedImportances | None,
) -> TypedMetadata:
    given = source.metadata() if template is None else template.typed_metadata()
    metadata = {
        key: typed for key, typed in given.items() if key not in SPLIT_KEYS and not key.startswith(_IMATRIX_PREFIX)
    }
    if "general.quantization_version" not in metadata:
        metadata["general.quantization_version"] = (ValueType.UINT32, 2)
    experts = next((tensor.type for tensor in tensors if tensor.name.endswith("ffn_gate_exps.weight")), None)
    if experts is not None and experts in FILE_TYPES:
        metadata["general.file_type"] = (ValueType.UINT32, FILE_TYPES[experts])
    if importances is not None and any(tensor.weighing == "imatrix" for tensor in tensors):
        metadata |= _provenance(importances)
    return metadata


def _provenance(importances: NamedImportances) -> TypedMetadata:
    matrix = importances.matrix
    entries: dict[str, tuple[ValueType, MetadataValue]] = {
        f"{_IMATRIX_PREFIX}file": (ValueType.STRING, importances.path.name),
        f"{_IMATRIX_PREFIX}entries_count": (ValueType.UINT64, len(matrix.names)),
    }
    if matrix.dataset:
        entries[f"{_IMATRIX_PREFIX}dataset"] = (ValueType.STRING, matrix.dataset)
    if matrix.chunks > 0:
        entries[f"{_IMATRIX_PREFIX}chunks_count"] = (ValueType.UINT64, matrix.chunks)
    return entries


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
