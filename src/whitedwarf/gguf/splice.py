"""Mixed expert layers: one model's routed experts in chosen layers, all else another's (spec: product.md E.3).

Promises: metadata, names and all other tensors are the base's, byte for byte; what comes from the donor has the base's
shape and belongs to a model of the same hyperparameters and tokenizer, or UsageError says what differs. Both dialects
of tensor names are understood.
Whether both files come from the same checkpoint no key tells; the routers are compared for it, and a difference is a
note.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.metadata import MetadataValue
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile, TensorInfo
from whitedwarf.gguf.rewriting import Piece, Rewriting, own_metadata, pieces_of, plan_rewriting
from whitedwarf.gguf.split import ARCHITECTURE_KEY

EXPERTS = ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight")
ROUTER = "ffn_gate_inp.weight"
TOKENIZER_KEYS = ("model", "pre", "tokens", "token_type", "merges")
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
    """Take the experts of `layers` from `donor`. Raises UsageError."""
    _check_distinct(base, donor)
    ours, theirs = _by_canonical_name(base), _by_canonical_name(donor)
    wanted = {f"blk.{layer}.{part}" for layer in layers for part in EXPERTS}
    _check_layers(base, layers)
    _check_there(base, ours, wanted)
    _check_there(donor, theirs, wanted)
    _check_keys(base, donor)
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
    count = base.metadata.get(f"{base.metadata.get(ARCHITECTURE_KEY)}.block_count")
    if not layers:
        raise UsageError("no layers to splice; expected some like 37-42,0-2.")
    if isinstance(count, int) and max(layers) >= count:
        raise UsageError(f"{base.paths[0]}: there is no layer {max(layers)}; expected layers from 0 to {count - 1}.")


def _check_there(model: GgufFile, tensors: Mapping[str, TensorInfo], wanted: Collection[str]) -> None:
    missing = sorted(wanted - tensors.keys())
    if missing:
        raise UsageError(f"{model.paths[0]}: has no {_listed(missing)}. {ADVICE}")


def _check_keys(base: GgufFile, donor: GgufFile) -> None:
    architecture = base.metadata.get(ARCHITECTURE_KEY)
    prefix = f"{architecture}."
    shape_keys = [key for key in base.metadata if key.startswith(prefix) and key in donor.metadata]
    tokenizer_keys = [f"tokenizer.ggml.{key}" for key in TOKENIZER_KEYS]
    for key in (ARCHITECTURE_KEY, *shape_keys, *tokenizer_keys):
        ours, theirs = base.metadata.get(key), donor.metadata.get(key)
        if not _is_equal(ours, theirs):
            what = "another tokenizer" if key in tokenizer_keys else "another model"
            raise UsageError(
                f"{donor.paths[0]}: {what} than {base.paths[0]}: key {key!r} is {_shown(theirs)}, in the base "
                f"{_shown(ours)}. {ADVICE}"
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


def _is_equal(left: MetadataValue | None, right: MetadataValue | None) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left is not None and right is not None and np.array_equal(np.asarray(left), np.asarray(right))
    return left == right


def _shown(value: MetadataValue | None) -> str:
    if value is None:
        return "missing"
    if isinstance(value, (str, int, float)):
        return f"{value!r:.80}"
    return f"an array of {len(value)}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more tensors" if len(names) > 3 else shown
