"""What one loaded model is: the file's hyper-parameters plus our choice of how KV rows are stored."""

from dataclasses import dataclass
from typing import Literal

from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.ops.base import HyperSettings, RowFormat, RowKind

KvCache = Literal["packed", "packed-f16", "f16", "f32"]

KV_KINDS: dict[KvCache, RowKind] = {
    "packed": RowKind.PACKED_KV,
    "packed-f16": RowKind.PACKED_KV_F16,
    "f16": RowKind.F16,
    "f32": RowKind.F32,
}
KEY_KINDS: dict[KvCache, RowKind] = {
    "packed": RowKind.PACKED_KEY,
    "packed-f16": RowKind.PACKED_KEY,
    "f16": RowKind.F16,
    "f32": RowKind.F32,
}


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """What distinguishes one block from its neighbours."""

    index: int  # its place in a sequence's state
    ratio: int  # 0, 4 or 128
    is_hash_routed: bool
    limit: float  # SwiGLU clamp of the routed experts
    shared_limit: float


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Hyper-parameters, storage formats and the numbers derived from both."""

    hp: Hyperparameters
    kv_cache: KvCache = "packed"
    max_context: int | None = None  # what the user allows; None = what the model was made for

    @property
    def vocab_size(self) -> int:
        return self.hp.vocab_size

    @property
    def context_length(self) -> int:
        """Tokens a sequence may have: the user's limit, never more than the model's own."""
        return min(self.hp.context_length, self.max_context or self.hp.context_length)

    @property
    def hyper(self) -> HyperSettings:
        return HyperSettings(self.hp.rms_epsilon, self.hp.hc_epsilon, self.hp.hc_iterations)

    @property
    def kv_format(self) -> RowFormat:
        return RowFormat(KV_KINDS[self.kv_cache], self.hp.head_dim, self.hp.rope_dims)

    @property
    def key_format(self) -> RowFormat:
        return RowFormat(KEY_KINDS[self.kv_cache], self.hp.index_head_dim, self.hp.rope_dims)

    @property
    def layers(self) -> tuple[LayerPlan, ...]:
        hp = self.hp
        return tuple(
            LayerPlan(i, ratio, hp.is_hash_layer(i), hp.swiglu_limits[i], hp.shared_swiglu_limits[i])
            for i, ratio in enumerate(hp.compress_ratios)
        )

    @property
    def mtp_layer(self) -> LayerPlan:
        """The MTP block: window only, learned router, the last layer's clamps (2.9)."""
        return LayerPlan(0, 0, False, self.hp.swiglu_limits[-1], self.hp.shared_swiglu_limits[-1])
