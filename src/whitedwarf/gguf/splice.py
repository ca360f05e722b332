"""Mixed expert layers: one model's routed experts in chosen layers, all else another's (spec: product.md E.3).

Promises: metadata, names and all other tensors are the base's, byte for byte; what comes from the donor has the base's
shape and belongs to a DeepSeek V4 of the same hyperparameters and tokenizer, or an error says what differs. Both
dialects of tensor names are understood.
Whether both files come from the same checkpoint no key tells; the routers are compared for it, and a difference is a
note.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whitedwarf.errors import NotDeepSeekV4Error, UsageError
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.metadata import MetadataValue
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile, TensorInfo
from whitedwarf.gguf.rewriting import Piece, Rewriting, own_metadata, pieces_of, plan_rewriting

EXPERTS = ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight")
ROUTER = "ffn_gate_inp.weight"
TOKENIZER_KEYS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")
FREE = ("context_length", "num_nextn_layers")  # what one model's files may say differently
ROUNDING = 0.02  # of the largest weight: two roundings of one router to 8 bits differ by less
ADVICE = "Expected two quantisations of one model."


@dataclass(frozen=True, slots=True)
class ChangedLayer:
    """What one layer's experts were and what they become, as types."""

    layer: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        return f"layer {self.layer}: {' '.join(self.before)} -> {' '.join(self.after)} (gate, up, down)"


@dataclass(frozen=True, slots=True)
class Splice:
    """A plan, and what to tell about it."""

    rewriting: Rewriting
    changes: tuple[ChangedLayer, ...]
    notes: tuple[str, ...]


def plan_splice(base: GgufFile, donor: GgufFile, target: Path, layers: Collection[int]) -> Splice:
    """Take the experts of `layers` from `donor`. Raises UsageError, or NotDeepSeekV4Error for files of other models."""
    _check_distinct(base, donor)
    _check_layers(base, layers)
    ours, theirs = _by_canonical_name(base), _by_canonical_name(donor)
    wanted = {f"blk.{layer}.{part}" for layer in layers for part in EXPERTS}
    _check_there(base, ours, wanted)
    _check_there(donor, theirs, wanted)
    _check_hyperparameters(base, donor)
    _check_tokenizers(base, donor)
    _check_tensors(base, donor, ours, theirs)
    pieces = [
        Piece(piece.name, donor, theirs[canonical_name(piece.name)].name)
        if canonical_name(piece.name) in wanted
        else piece
        for piece in pieces_of(base)
    ]
    changes = tuple(_change(ours, theirs, layer) for layer in sorted(layers))
    rewriting = plan_rewriting(target, own_metadata(base), pieces)
    return Splice(rewriting, changes, tuple(_notes(base, donor, ours, theirs, changes)))


def _check_distinct(base: GgufFile, donor: GgufFile) -> None:
    for path in base.paths:
        if any(path.samefile(other) for other in donor.paths):
            raise UsageError(f"{path}: is the base and the donor at once; there is nothing to splice. {ADVICE}")


def _check_layers(base: GgufFile, layers: Collection[int]) -> None:
    if not layers:
        raise UsageError("no layers to splice; expected some like 37-42,0-2.")
    count = _hyperparameters(base).num_layers
    if max(layers) >= count:
        raise UsageError(f"{base.paths[0]}: there is no layer {max(layers)}; expected layers from 0 to {count - 1}.")


def _check_there(model: GgufFile, tensors: Mapping[str, TensorInfo], wanted: Collection[str]) -> None:
    missing = sorted(wanted - tensors.keys())
    if missing:
        raise UsageError(f"{model.paths[0]}: has no {_listed(missing)}. {ADVICE}")


def _check_hyperparameters(base: GgufFile, donor: GgufFile) -> None:
    """The numbers and not their keys: converters spell some of them differently."""
    ours, theirs = _hyperparameters(base), _hyperparameters(donor)
    for field in dataclasses.fields(ours):
        left, right = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name not in FREE and not (np.shape(left) == np.shape(right) and np.allclose(left, right, rtol=1e-6)):
            raise UsageError(
                f"{donor.paths[0]}: another model than {base.paths[0]}: {field.name} is {right}, in the base {left}. "
                f"{ADVICE}"
            )


def _hyperparameters(model: GgufFile) -> Hyperparameters:
    try:
        return from_metadata(model.metadata, model.tensors)
    except NotDeepSeekV4Error as error:
        raise NotDeepSeekV4Error(f"{model.paths[0]}: {error}") from error


def _check_tokenizers(base: GgufFile, donor: GgufFile) -> None:
    for key in TOKENIZER_KEYS:
        ours, theirs = base.metadata.get(key), donor.metadata.get(key)
        if ours != theirs:
            raise UsageError(
                f"{donor.paths[0]}: another tokenizer than {base.paths[0]}: key {key!r} is {_shown(theirs)}, in the "
                f"base {_shown(ours)}{_first_difference(ours, theirs)}. {ADVICE}"
            )


def _check_tensors(
    base: GgufFile, donor: GgufFile, ours: Mapping[str, TensorInfo], theirs: Mapping[str, TensorInfo]
) -> None:
    """The same tensors in the same shapes; only an MTP block may be in one file and not in the other."""
    for model, tensors, others in ((donor, theirs, ours), (base, ours, theirs)):
        _check_there(model, tensors, {name for name in others if not name.startswith("mtp.")})
    for name, info in ours.items():
        if name in theirs and theirs[name].shape != info.shape:
            raise UsageError(
                f"{donor.paths[0]}: tensor {name!r} has shape {list(theirs[name].shape)}, in {base.paths[0]} it has "
                f"{list(info.shape)}. {ADVICE}"
            )


def _change(ours: Mapping[str, TensorInfo], theirs: Mapping[str, TensorInfo], layer: int) -> ChangedLayer:
    names = [f"blk.{layer}.{part}" for part in EXPERTS]
    return ChangedLayer(
        layer, tuple(ours[name].type.name for name in names), tuple(theirs[name].type.name for name in names)
    )


def _notes(
    base: GgufFile,
    donor: GgufFile,
    ours: Mapping[str, TensorInfo],
    theirs: Mapping[str, TensorInfo],
    changes: Collection[ChangedLayer],
) -> Iterator[str]:
    strange = [
        change.layer
        for change in changes
        if not _is_same_router(base, donor, ours, theirs, f"blk.{change.layer}.{ROUTER}")
    ]
    if strange:
        layers = ", ".join(map(str, strange))
        yield (
            f"the routers of layers {layers} differ between {base.paths[0]} and {donor.paths[0]}: they seem to be made "
            "from different weights, and experts chosen by a router that does not know them answer nonsense"
        )


def _is_same_router(
    base: GgufFile, donor: GgufFile, ours: Mapping[str, TensorInfo], theirs: Mapping[str, TensorInfo], name: str
) -> bool:
    if name not in ours:
        return True
    left, right = (
        decode(model.data(info.name), info.type, info.shape)
        for model, info in ((base, ours[name]), (donor, theirs[name]))
    )
    largest = float(np.abs(left).max(initial=0))
    return bool(np.abs(left - right).max(initial=0) <= ROUNDING * largest)


def _by_canonical_name(model: GgufFile) -> dict[str, TensorInfo]:
    return {canonical_name(name): info for name, info in model.tensors.items()}


def _shown(value: MetadataValue | None) -> str:
    if value is None:
        return "missing"
    return f"a list of {len(value)}" if isinstance(value, list) else f"{value!r:.80}"


def _first_difference(ours: MetadataValue | None, theirs: MetadataValue | None) -> str:
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return ""
    differing = (index for index, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    index = next(differing, None)
    return (
        "" if index is None else f"; the first to differ is number {index}: {theirs[index]!r:.80}, {ours[index]!r:.80}"
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more tensors" if len(names) > 3 else shown
