"""Where parameters come from and go to: a release folder, a GGUF (the packaged one), a run's saved state.

A GGUF is read back through our own reader and dequantised, so that training can go on from what the package ships even
when nothing else survived.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from nano.parameters import MTP, Parameters
from nano.places import TOKENIZER
from nano.shape import Shape
from whitedwarf.errors import UsageError
from whitedwarf.gguf.names import EXPERT_PLACE, canonical_to_release
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.store import load_tensors

_KEPT_FLOAT32 = ("hc_", "attn_sink", ".ape", "gate.bias")


@dataclass
class Checkpoint:
    """Parameters under release names, and how far the run was that made them."""

    state: dict[str, Tensor]
    steps: int = 0
    tokens: int = 0
    optimiser: dict[str, dict[str, Tensor]] | None = None  # memory by name; None: begins anew


def read_checkpoint(source: Path) -> Checkpoint:
    """A release folder, a `.gguf`, or a `.pt` that `save_run` wrote. Raises UsageError for anything else.

    A GGUF's MTP block is also taken from `NAME-mtp.gguf` beside it.
    """
    if source.is_dir():
        return Checkpoint(dict(load_file(source / "model.safetensors")))
    if source.suffix == ".gguf":
        beside = source.with_name(f"{source.stem}-mtp.gguf")
        return Checkpoint(_from_gguf(source) | (_from_gguf(beside) if beside.exists() else {}))
    if source.suffix == ".pt":
        return Checkpoint(**torch.load(source, weights_only=True))
    raise UsageError(f"{source}: expected a release folder, a .gguf or a .pt file to go on from")


def save_run(target: Path, checkpoint: Checkpoint) -> None:
    """Written beside and renamed, so that a cut never loses the one before."""
    beside = target.with_suffix(".part")
    torch.save(vars(checkpoint), beside)
    beside.replace(target)


def save_release(folder: Path, shape: Shape, state: dict[str, Tensor], *, dtype: torch.dtype = torch.bfloat16) -> int:
    """A release folder as DeepSeek ships them: weights, configuration, tokenizer. Returns the bytes of the tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: _stored(name, value, dtype) for name, value in state.items()}
    save_file(stored, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = shape.release_config(mtp_blocks=int(any(name.startswith(MTP) for name in state)))
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    generation = {"bos_token_id": 0, "eos_token_id": 1, "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(generation) + "\n", encoding="utf-8")
    for file in TOKENIZER.glob("*.json"):
        shutil.copy(file, folder / file.name)
    return sum(value.numel() * value.element_size() for value in stored.values())


def read_parameters(source: Path, shape: Shape) -> Parameters:
    """The parameters alone."""
    return Parameters.from_release(shape, read_checkpoint(source).state)


def _stored(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    if name.endswith("tid2eid"):
        return value.long().contiguous()
    return value.to(torch.float32 if any(part in name for part in _KEPT_FLOAT32) else dtype).contiguous()


def _from_gguf(path: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    with open_gguf(path) as gguf:
        for name, tensor in load_tensors(gguf).items():
            release = canonical_to_release(name)
            if release is None:
                raise UsageError(f"{path}: {name} has no place in a release; expected a DeepSeek V4 model")
            if name.endswith("tid2eid.weight"):
                state[release] = torch.from_numpy(np.array(tensor.integers(), np.int64))
                continue
            value = torch.from_numpy(np.array(tensor.floats(), np.float32)).reshape(tensor.shape)
            if EXPERT_PLACE not in release:
                state[release] = value
                continue
            for number, part in enumerate(value):
                state[release.replace(EXPERT_PLACE, str(number))] = part.contiguous()
    return state
