"""How many bytes of a model lie where in it: by layer, and apart from the routed experts. From a header alone.

Weights have the same size on a card as in the file: no format is decoded, only its parts are sorted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.names import canonical_name

_LAYER = re.compile(r"(blk|mtp)\.(\d+)\.(.+)")
_ROUTED = re.compile(r"ffn_(gate|up|down)_exps\.weight")
_FIRST = "token_embd.weight"


class HasSize(Protocol):
    """What is needed of a tensor's description."""

    @property
    def size_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """One layer. `dense_bytes`: all but the routed experts; `expert_bytes`: one of those, its three matrices."""

    dense_bytes: int
    expert_bytes: int
    num_experts: int

    @property
    def experts_bytes(self) -> int:
        return self.expert_bytes * self.num_experts


@dataclass(frozen=True, slots=True)
class ModelBytes:
    """All layers in order, an MTP block last; what comes before the first, and behind the last."""

    layers: tuple[LayerBytes, ...]
    first_bytes: int  # the embedding
    last_bytes: int  # the head and its norm

    @property
    def experts_bytes(self) -> int:
        return sum(layer.experts_bytes for layer in self.layers)

    @property
    def dense_bytes(self) -> int:
        return self.first_bytes + self.last_bytes + sum(layer.dense_bytes for layer in self.layers)


def with_block(sizes: ModelBytes, hp: Hyperparameters, tensors: Mapping[str, HasSize]) -> ModelBytes:
    """And an MTP block of a file of its own, of either dialect, as the last layer."""
    routed = sum(tensor.size_bytes for name, tensor in tensors.items() if _ROUTED.search(name))
    dense = sum(tensor.size_bytes for tensor in tensors.values()) - routed
    block = LayerBytes(dense, -(-routed // hp.num_experts), hp.num_experts)
    return replace(sizes, layers=(*sizes.layers[: hp.num_layers], block))


def model_bytes(hp: Hyperparameters, tensors: Mapping[str, HasSize]) -> ModelBytes:
    """Add up a file's tensors, under their names in the file."""
    dense = [0] * (hp.num_layers + 1)
    routed = [0] * (hp.num_layers + 1)
    ends = {True: 0, False: 0}
    for file_name, tensor in tensors.items():
        name = canonical_name(file_name)
        found = _LAYER.fullmatch(name)
        if found is None:
            ends[name == _FIRST] += tensor.size_bytes
            continue
        layer = hp.num_layers if found[1] == "mtp" else int(found[2])
        if layer <= hp.num_layers and not (found[1] == "blk" and layer == hp.num_layers):  # drafts are not loaded
            (routed if _ROUTED.fullmatch(found[3]) else dense)[layer] += tensor.size_bytes
    num_layers = hp.num_layers + bool(dense[-1] or routed[-1])
    layers = (LayerBytes(dense[i], -(-routed[i] // hp.num_experts), hp.num_experts) for i in range(num_layers))
    return ModelBytes(tuple(layers), ends[True], ends[False])
