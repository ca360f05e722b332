"""What a conversion will write, decided before any work: every tensor, its type, and the source weights it is made of.

Promises that a plan which comes back can be carried out: all names are placed, all weights are there with the right
shapes and scales, every type can hold its tensor. Everything wrong is a FileFormatError naming what was found and
expected. It reads no tensor data.

Types when nothing else is asked for ("native") follow llama.cpp's converter (model.md 4.6): FP4 -> MXFP4, FP8 -> Q8_0,
matrices in BF16, F16 or F32 stay what they are (routed experts too), vectors and hyper-connections -> F32, the token
table -> I32.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.census import ExpectedTensor, Kind, expected_tensors, mtp_tensors
from whitedwarf.gguf.codecs import ENCODABLE_TYPES
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.names import EXPERT_PLACE, canonical_to_release, is_duplicate_in_mtp, release_to_canonical
from whitedwarf.gguf.safetensors_source import SafetensorsSource, SourceTensor
from whitedwarf.gguf.source_values import PLAIN_TYPES, Encoding, SourcePart, recognise
from whitedwarf.gguf.types import GgmlType

Outtype = Literal["native", "f16", "f32"]
TypeChoice = Callable[[str, tuple[int, ...]], GgmlType | None]
"""Canonical name and shape -> a type, or None for what the outtype says."""

_DSPARK_MARK = ("main_proj", "main_norm", "markov_head", "confidence_head")
_SHOWN_FAULTS = 5


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One tensor to write, made of one weight, or of one weight per expert in order."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]  # slowest axis first
    parts: tuple[SourcePart, ...]


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """All tensors in the order of the file, and what the user should know about what is not among them."""

    tensors: tuple[PlannedTensor, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Weight:
    """A release weight and its scale while they are being collected."""

    weight: SourceTensor | None = None
    scale: SourceTensor | None = None


@dataclass(slots=True)
class _Collected:
    """The checkpoint's tensors under their canonical names, by expert (None: not an expert)."""

    weights: dict[str, dict[int | None, _Weight]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


def plan_conversion(
    source: SafetensorsSource,
    hp: Hyperparameters,
    outtype: Outtype,
    choose_type: TypeChoice | None = None,
    include_mtp: bool | None = None,
) -> ConversionPlan:
    """Decide everything. `include_mtp`: True requires the MTP block, False leaves it out, None takes one if present."""
    has_mtp, notes = _decide_mtp(source, include_mtp)
    collected = _collect(source, hp, has_mtp)
    expected = expected_tensors(hp)
    for prefix in sorted({name.split(".")[1] for name in collected.weights if name.startswith("mtp.")}):
        expected |= mtp_tensors(hp, f"mtp.{prefix}.")
    tensors = []
    for name, want in expected.items():
        parts = _parts(name, want, collected)
        if parts:
            tensors.append(_planned(name, want, parts, outtype, choose_type))
    collected.faults += [
        f"{_release(name)} is not a tensor of this model" for name in collected.weights.keys() - expected
    ]
    _raise_faults(source.folder, collected.faults)
    notes += [f"{count} {what} left out" for what, count in collected.dropped.items()]
    return ConversionPlan(tuple(tensors), tuple(notes))


def _decide_mtp(source: SafetensorsSource, include_mtp: bool | None) -> tuple[bool, list[str]]:
    """Whether the MTP block goes along; DSpark's drafter lives under the same prefix and is another thing."""
    names = [name for name in source.tensors if _is_mtp(name) and not is_duplicate_in_mtp(name)]
    is_dspark = any(mark in name.split(".") for name in names for mark in _DSPARK_MARK)
    if include_mtp and (is_dspark or not names):
        found = "a DSpark drafter (mtp.0.main_proj)" if is_dspark else "no mtp.* tensors"
        raise FileFormatError(
            f"{source.folder}: expected a classic MTP block (mtp.0.*), found {found}; convert without MTP"
        )
    if is_dspark:
        return False, [
            f"{len(names)} tensors of a DSpark drafter (mtp.*) left out: only classic MTP blocks are supported"
        ]
    if names and include_mtp is False:
        return False, [f"{len(names)} tensors of the MTP block left out, as asked"]
    return bool(names), []


def _is_mtp(name: str) -> bool:
    return name.removeprefix("model.").startswith("mtp.")


def _collect(source: SafetensorsSource, hp: Hyperparameters, has_mtp: bool) -> _Collected:
    collected = _Collected()
    for name, tensor in source.tensors.items():
        if _is_mtp(name) and (not has_mtp or is_duplicate_in_mtp(name)):
            if has_mtp:
                _count(collected.dropped, "copies of the embedding or head inside mtp.*")
            continue
        place = release_to_canonical(name)
        if place is None:
            collected.faults.append(f"{name} is not a tensor of a DeepSeek V4 release")
        elif _is_hash_bias(place.canonical, hp):
            _count(collected.dropped, "router biases of hash-routed layers, which nothing reads,")
        else:
            _put(collected, tensor, place.canonical, place.expert, place.is_scale)
    return collected


def _count(dropped: dict[str, int], what: str) -> None:
    dropped[what] = dropped.get(what, 0) + 1


def _is_hash_bias(canonical: str, hp: Hyperparameters) -> bool:
    space, number, rest = (*canonical.split(".", 2), "", "")[:3]
    return space == "blk" and rest == "exp_probs_b.bias" and hp.is_hash_layer(int(number))


def _put(collected: _Collected, tensor: SourceTensor, canonical: str, expert: int | None, is_scale: bool) -> None:
    weight = collected.weights.setdefault(canonical, {}).setdefault(expert, _Weight())
    before = weight.scale if is_scale else weight.weight
    if before is not None:
        collected.faults.append(f"{before.name} and {tensor.name} are the same tensor twice")
    if is_scale:
        weight.scale = tensor
    else:
        weight.weight = tensor


def _parts(name: str, want: ExpectedTensor, collected: _Collected) -> tuple[SourcePart, ...]:
    """The source weights of one tensor, checked; faults are noted, and then there are none."""
    found = collected.weights.get(name, {})
    is_routed = EXPERT_PLACE in (canonical_to_release(name) or "")
    wanted: Iterable[int | None] = range(want.shape[0]) if is_routed else (None,)
    shape = want.shape[1:] if is_routed else want.shape
    num_faults = len(collected.faults)
    parts = [_part(name, expert, found.get(expert), shape, want, collected.faults) for expert in wanted]
    for expert in sorted(found.keys() - set(wanted), key=str):
        collected.faults.append(f"{_release(name, expert)} is beyond the {want.shape[0]} experts of config.json")
    if len({part.encoding if part.scale else part.weight.dtype for part in parts if part}) > 1:
        collected.faults.append(f"the experts of {_release(name)} are not all of one type")
    if len(collected.faults) > num_faults:
        return ()
    return tuple(part for part in parts if part)


def _part(
    name: str,
    expert: int | None,
    found: _Weight | None,
    shape: tuple[int, ...],
    want: ExpectedTensor,
    faults: list[str],
) -> SourcePart | None:
    if found is None or found.weight is None:
        if want.required:
            faults.append(f"{_release(name, expert)} {list(shape)} is missing")
        return None
    part = recognise(found.weight, found.scale)
    if isinstance(part, str):
        faults.append(part)
        return None
    if part.shape != shape:
        faults.append(f"{part.weight.name} has shape {list(part.shape)}, expected {list(shape)}")
    elif part.encoding not in _ENCODINGS[want.kind]:
        expected = " or ".join(_ENCODINGS[want.kind])
        faults.append(f"{part.weight.name} holds {part.encoding}, expected {expected}")
    return part


_ENCODINGS: dict[Kind, tuple[Encoding, ...]] = {
    "matrix": (Encoding.PLAIN, Encoding.FP8, Encoding.FP4),
    "vector": (Encoding.PLAIN,),
    "indices": (Encoding.INTEGERS,),
}


def _release(name: str, expert: int | None = None) -> str:
    release = canonical_to_release(name) or name
    return release if expert is None else release.replace(EXPERT_PLACE, str(expert))


def _raise_faults(folder: Path, faults: list[str]) -> None:
    if faults:
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise FileFormatError(
            f"{folder}: {'; '.join(faults[:_SHOWN_FAULTS])}{more}. "
            "Expected DeepSeek's release folder, complete and as its config.json describes it"
        )


def _planned(
    name: str, want: ExpectedTensor, parts: tuple[SourcePart, ...], outtype: Outtype, choose_type: TypeChoice | None
) -> PlannedTensor:
    asked = None if choose_type is None else choose_type(name, want.shape)
    type_ = default_type(name, want, parts[0], outtype) if asked is None else asked  # F32 is 0, and so false
    if not want.allows(type_) or (type_ not in ENCODABLE_TYPES and type_ is not GgmlType.I32):
        raise UsageError(f"{name} cannot be written as {type_.name}; choose another type for it")
    if want.shape[-1] % type_.block_size:
        raise UsageError(
            f"{name} has rows of {want.shape[-1]}, but {type_.name} needs multiples of {type_.block_size}; "
            "choose another type for it"
        )
    return PlannedTensor(name, type_, want.shape, parts)


def default_type(name: str, want: ExpectedTensor, part: SourcePart, outtype: Outtype) -> GgmlType:
    """The type that `outtype` means for one tensor."""
    if want.kind == "indices":
        return GgmlType.I32
    if want.kind == "vector" or outtype == "f32" or _is_kept_exact(name):
        return GgmlType.F32
    if outtype == "f16":
        return GgmlType.F16
    return _native_type(part)


def _is_kept_exact(name: str) -> bool:
    """Small tensors that steer everything: hyper-connection mixers and position tables."""
    return "hc_" in name or name.endswith("_ape.weight")


def _native_type(part: SourcePart) -> GgmlType:
    if part.encoding is Encoding.FP4:
        return GgmlType.MXFP4
    if part.encoding is Encoding.FP8:
        fits = part.columns % GgmlType.Q8_0.block_size == 0
        return GgmlType.Q8_0 if fits else GgmlType.BF16  # bf16 holds e4m3 times a power of two exactly
    return PLAIN_TYPES[part.weight.dtype]


FILE_TYPES: Mapping[GgmlType, int] = {
    GgmlType.F32: 0,
    GgmlType.F16: 1,
    GgmlType.Q8_0: 7,
    GgmlType.Q2_K: 10,
    GgmlType.Q4_K: 14,
    GgmlType.IQ2_XXS: 19,
    GgmlType.BF16: 32,
    GgmlType.MXFP4: 38,
}


def file_type(tensors: Iterable[PlannedTensor]) -> int:
    """`general.file_type` after the routed experts, which are nearly all of a model."""
    return next(FILE_TYPES[tensor.type] for tensor in tensors if tensor.name.endswith("ffn_gate_exps.weight"))
