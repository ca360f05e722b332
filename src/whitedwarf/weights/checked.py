"""A model's tensors after everything was checked that names, shapes and metadata can show.

Promises that a `CheckedModel` is complete and consistent, its MTP block included, and that every refusal names the
file. Reads no tensor data; only `check_expert_tables` does, a few megabytes.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.errors import FileFormatError, NotDeepSeekV4Error, UsageError
from whitedwarf.gguf.census import (
    check_census,
    check_mtp_census,
    has_classic_mtp,
    layers_present,
    refuse_support_file,
)
from whitedwarf.gguf.hparams import ARCHITECTURE, Hyperparameters, from_metadata
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.weights.store import load_tensors
from whitedwarf.weights.tensors import TensorMap


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """The numbers that describe a model, and its tensors under canonical names."""

    hp: Hyperparameters
    tensors: TensorMap
    has_mtp: bool


def check_model(gguf: GgufFile, held: range | None = None) -> CheckedModel:
    """Compare the whole file with the architecture; FileFormatError or NotDeepSeekV4Error names key or tensor.

    Of a part of the model, layers `held`, only their tensors have to be there (one of PRO's halves may have no others),
    and an MTP block is not looked at. UsageError for layers that the model does not have.
    """
    name, tensors = str(gguf.paths[0]), load_tensors(gguf)
    architecture = gguf.metadata.get("general.architecture", ARCHITECTURE)
    if isinstance(architecture, str) and architecture == ARCHITECTURE:  # an array is no architecture
        refuse_support_file(tensors, name, 0 if held is None else held.start)
    hp = _hyperparameters(gguf, name)
    if held is not None and not 0 <= held.start < held.stop <= hp.num_layers:
        raise UsageError(
            f"layers {held.start} to {held.stop - 1}: {name} is of a model with layers 0 to {hp.num_layers - 1}"
        )
    check_census(hp, tensors, name, held)
    has_mtp = has_classic_mtp(tensors) and held in (None, range(hp.num_layers))
    if has_mtp:
        check_mtp_census(hp, tensors, name)
    return CheckedModel(hp, tensors, has_mtp)


def present_layers(gguf: GgufFile) -> range:
    """The layers that can be computed from this file: all, or those that one half of a model has. Empty for none."""
    return layers_present(_hyperparameters(gguf, str(gguf.paths[0])), load_tensors(gguf))


def check_expert_tables(model: CheckedModel, file_name: str, held: range | None = None) -> None:
    """Refuse a token table that names experts which do not exist: better now than in the middle of an answer."""
    for layer in range(model.hp.num_hash_layers):
        if held is not None and layer not in held:
            continue
        table = model.tensors[f"blk.{layer}.ffn_gate_tid2eid.weight"]
        bad = np.flatnonzero(table.data.view(np.uint32) >= model.hp.num_experts)  # negative ids are large here
        if bad.size:
            found = int(table.integers().reshape(-1)[bad[0]])
            raise FileFormatError(
                f"{file_name}: {table.name} names expert {found}, expected 0 to {model.hp.num_experts - 1}; "
                "the file is corrupt: download or convert it again"
            )


def _hyperparameters(gguf: GgufFile, file_name: str) -> Hyperparameters:
    try:
        return from_metadata(gguf.metadata, gguf.tensors)
    except NotDeepSeekV4Error as error:
        raise NotDeepSeekV4Error(f"{file_name}: {error}") from error
