"""How many bytes of weights one decoded token must read: the numerator of the bandwidth limit.

Counts each dense matrix once and of the routed experts only those used; the embedding is one row. KV rows are left out:
they are small beside the weights until contexts get very long.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.weights.tensors import Tensor, TensorMap


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read per decoded token."""

    dense_bytes: int
    expert_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.dense_bytes + self.expert_bytes


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """The same, layer by layer. `experts_bytes` are of one routed expert of each layer."""

    layers: tuple[Traffic, ...]
    experts_bytes: tuple[int, ...]
    rest_bytes: int  # head, and one row of the embedding

    @property
    def total(self) -> Traffic:
        dense = self.rest_bytes + sum(layer.dense_bytes for layer in self.layers)
        return Traffic(dense, sum(layer.expert_bytes for layer in self.layers))

    def by_kind(self, ratios: Sequence[int]) -> dict[int, float]:
        """Mean bytes of the layers of each compression ratio."""
        pairs = list(zip(ratios, self.layers, strict=True))
        return {kind: mean(t.total_bytes for ratio, t in pairs if ratio == kind) for kind in set(ratios)}

    def batch_bytes(self, distinct_experts: Sequence[float]) -> float:
        """Bytes of a step of many sequences that uses so many different experts in each layer."""
        dense = self.total.dense_bytes
        return dense + sum(count * size for count, size in zip(distinct_experts, self.experts_bytes, strict=True))


def layer_traffic(tensors: TensorMap, hp: Hyperparameters) -> LayerTraffic:
    """Bytes that decoding one token of one sequence touches, by layer."""
    dense, experts, rest = [0] * hp.num_layers, [0] * hp.num_layers, 0
    for name, tensor in tensors.items():
        block = re.match(r"blk\.(\d+)\.", name)
        layer = int(block[1]) if block else None
        if name.startswith("mtp.") or (layer is not None and layer >= hp.num_layers):
            continue  # a block that drafts, in either spelling
        if layer is None:
            rest += _dense_bytes(tensor)
        elif len(tensor.shape) == 3:
            experts[layer] += tensor.data.nbytes // hp.num_experts
        else:
            dense[layer] += _dense_bytes(tensor)
    layers = tuple(Traffic(d, e * hp.num_experts_used) for d, e in zip(dense, experts, strict=True))
    return LayerTraffic(layers, tuple(experts), rest)


def traffic_per_token(tensors: TensorMap, hp: Hyperparameters) -> Traffic:
    """Bytes that decoding one token of one sequence touches."""
    return layer_traffic(tensors, hp).total


def operations_per_token(tensors: TensorMap, hp: Hyperparameters) -> int:
    """Multiplications and additions with weights that reading one token takes, without the head and attention."""
    weights = 0
    for name, tensor in tensors.items():
        block = re.match(r"blk\.(\d+)\.", name)
        if block is None or int(block[1]) >= hp.num_layers or len(tensor.shape) < 2 or "tid2eid" in name:
            continue
        used = hp.num_experts_used / hp.num_experts if len(tensor.shape) == 3 else 1
        weights += round(math.prod(tensor.shape) * used)
    return 2 * weights


def _dense_bytes(tensor: Tensor) -> int:
    is_table = tensor.name in ("token_embd.weight",) or "tid2eid" in tensor.name
    return tensor.data.nbytes // tensor.shape[0] if is_table else tensor.data.nbytes
