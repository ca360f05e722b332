"""How many bytes of weights one decoded token must read: the numerator of the bandwidth limit.

Counts each dense matrix once and of the routed experts only those used; the embedding is one row. KV rows are left out:
they are small beside the weights until contexts get very long.
"""

from dataclasses import dataclass

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


def traffic_per_token(tensors: TensorMap, hp: Hyperparameters) -> Traffic:
    """Bytes that decoding one token of one sequence touches."""
    main = [t for name, t in tensors.items() if not name.startswith("mtp.")]
    experts = sum(t.data.nbytes for t in main if len(t.shape) == 3)
    dense = sum(_dense_bytes(t) for t in main if len(t.shape) < 3)
    return Traffic(dense, experts * hp.num_experts_used // hp.num_experts)


def _dense_bytes(tensor: Tensor) -> int:
    is_table = tensor.name in ("token_embd.weight",) or "tid2eid" in tensor.name
    return tensor.data.nbytes // tensor.shape[0] if is_table else tensor.data.nbytes
