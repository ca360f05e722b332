"""Every number that describes a DeepSeek V4 model (model.md 1), read from GGUF metadata or a release's config.json.

Promises that a `Hyperparameters` from `from_metadata` or `from_release_config` is finite, bounded and consistent, so
that whoever allocates by it needs no checks of their own; anything else is a `NotDeepSeekV4Error` naming the key. It
takes any size of this architecture, not only Flash and PRO. It does not look at tensors beyond recovering keys that old
files lack; `census` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whitedwarf.gguf.metadata import MetadataValue
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.recovery import PREFIX, recover_missing
from whitedwarf.gguf.types import ValueType
from whitedwarf.gguf.values import (
    MISSING,
    choice_per_layer,
    real_number,
    real_per_layer,
    refuse,
    truth,
    uniform,
    whole_number,
    word,
)

ARCHITECTURE = "deepseek4"
SQRT_SOFTPLUS = 4  # expert_gating_func
NUM_STREAMS = 4
COMPRESS_RATIOS = (0, 4, 128)

MetadataEntry = tuple[ValueType, MetadataValue]  # what GgufWriter takes; arrays are numpy arrays of the wanted type


class HasShape(Protocol):
    """What `from_metadata` needs of a tensor description."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The shape and the constants of one model; names follow the paper, units are elements and tokens."""

    num_layers: int  # main layers only, without MTP
    hidden_size: int
    vocab_size: int
    context_length: int
    num_heads: int
    head_dim: int  # of a query head and of the one shared key-value row
    rope_dims: int  # the last ones of head_dim, and of index_head_dim
    q_lora_rank: int
    o_lora_rank: int  # per output group
    num_output_groups: int
    sliding_window: int  # tokens, the query's own included
    index_heads: int
    index_head_dim: int
    index_topk: int
    compress_ratios: tuple[int, ...]  # per layer: 0, 4 or 128
    rope_base: float  # layers without compression; never scaled
    compress_rope_base: float  # layers with compression
    yarn_factor: float  # 1: no scaling
    yarn_original_context: int
    yarn_beta_fast: float
    yarn_beta_slow: float
    num_experts: int
    num_experts_used: int
    num_shared_experts: int
    expert_size: int
    expert_weights_scale: float
    norm_topk: bool
    num_hash_layers: int
    hc_streams: int
    hc_iterations: int
    hc_epsilon: float
    rms_epsilon: float
    swiglu_limits: tuple[float, ...]  # per layer
    shared_swiglu_limits: tuple[float, ...]  # per layer
    num_nextn_layers: int = 0  # MTP blocks that come with the main model

    @property
    def output_group_width(self) -> int:
        """Inputs of one output group: its heads side by side."""
        return self.num_heads // self.num_output_groups * self.head_dim

    @property
    def has_yarn(self) -> bool:
        """Whether the compressed layers' rotary frequencies are scaled."""
        return self.yarn_factor > 1.0

    def is_hash_layer(self, layer: int) -> bool:
        """Whether the layer's experts come from the token table instead of the router's scores."""
        return layer < self.num_hash_layers


@dataclass(frozen=True, slots=True)
class Number:
    """One scalar: its attribute, its key in GGUF (without prefix) and in config.json, its bounds, its default."""

    attribute: str
    gguf_key: str
    config_key: str
    low: float
    high: float
    default: float | None = None  # None: the key is required
    is_real: bool = False

    def read(self, values: Mapping[str, object], key: str) -> int | float:
        """The value under `key`, checked."""
        if self.default is not None and values.get(key) is None:
            return self.default
        if self.is_real:
            return real_number(values, key, self.low, self.high)
        return whole_number(values, key, int(self.low), int(self.high))

    def entry(self, value: int | float) -> MetadataEntry:
        """The value as GGUF metadata."""
        return (ValueType.FLOAT32, float(value)) if self.is_real else (ValueType.UINT32, int(value))


# Upper bounds are several times the largest known model: far enough to be in nobody's way, near enough that no
# product of them overflows.
NUMBERS = (
    Number("hidden_size", "embedding_length", "hidden_size", 1, 1 << 16),
    Number("vocab_size", "vocab_size", "vocab_size", 1, 1 << 21),
    Number("context_length", "context_length", "max_position_embeddings", 1, 1 << 27, default=1 << 20),
    Number("num_heads", "attention.head_count", "num_attention_heads", 1, 4096),
    Number("head_dim", "attention.key_length", "head_dim", 2, 4096),
    Number("rope_dims", "rope.dimension_count", "qk_rope_head_dim", 2, 4096),
    Number("q_lora_rank", "attention.q_lora_rank", "q_lora_rank", 1, 1 << 16),
    Number("o_lora_rank", "attention.output_lora_rank", "o_lora_rank", 1, 1 << 16),
    Number("num_output_groups", "attention.output_group_count", "o_groups", 1, 4096),
    Number("sliding_window", "attention.sliding_window", "sliding_window", 1, 1 << 14),
    Number("index_heads", "attention.indexer.head_count", "index_n_heads", 1, 4096),
    Number("index_head_dim", "attention.indexer.key_length", "index_head_dim", 32, 4096),
    Number("index_topk", "attention.indexer.top_k", "index_topk", 1, 1 << 20),
    Number("rope_base", "rope.freq_base", "rope_theta", 1.5, 1e12, default=10000.0, is_real=True),
    Number("compress_rope_base", "attention.compress_rope_freq_base", "compress_rope_theta", 1.5, 1e12, is_real=True),
    Number("num_experts", "expert_count", "n_routed_experts", 1, 8192),
    Number("num_experts_used", "expert_used_count", "num_experts_per_tok", 1, 256),
    Number("num_shared_experts", "expert_shared_count", "n_shared_experts", 1, 1),
    Number("expert_weights_scale", "expert_weights_scale", "routed_scaling_factor", 1e-6, 1e6, is_real=True),
    Number("num_hash_layers", "hash_layer_count", "num_hash_layers", 0, 512),
    Number("hc_streams", "hyper_connection.count", "hc_mult", NUM_STREAMS, NUM_STREAMS),
    Number("hc_iterations", "hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", 1, 1000),
    Number("hc_epsilon", "hyper_connection.epsilon", "hc_eps", 1e-12, 0.1, is_real=True),
    Number("rms_epsilon", "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-12, 0.1, is_real=True),
)
MAX_LAYERS = 512
_EXPERT_SIZE = Number("expert_size", "expert_feed_forward_length", "moe_intermediate_size", 1, 1 << 17)
YARN_FACTOR = Number("yarn_factor", "rope.scaling.factor", "factor", 1, 1 << 16, default=1.0, is_real=True)
YARN = (
    Number(
        "yarn_original_context", "rope.scaling.original_context_length", "original_max_position_embeddings", 1, 1 << 27
    ),
    Number("yarn_beta_fast", "rope.scaling.yarn_beta_fast", "beta_fast", 1e-3, 1e6, default=32.0, is_real=True),
    Number("yarn_beta_slow", "rope.scaling.yarn_beta_slow", "beta_slow", 1e-3, 1e6, default=1.0, is_real=True),
)
_NO_YARN: Mapping[str, object] = {
    "yarn_factor": 1.0,
    "yarn_original_context": 65536,
    "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0,
}
_SWIGLU_BOUNDS = (1e-3, 1e6)


def from_metadata(metadata: Mapping[str, object], tensors: Mapping[str, HasShape]) -> Hyperparameters:
    """Read a GGUF file's description of its model; keys that early files lack come from the shapes of `tensors`."""
    word(metadata, "general.architecture", (ARCHITECTURE,))
    shapes = {canonical_name(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    values: dict[str, object] = {**recover_missing(metadata, shapes), **metadata}
    numbers: dict[str, object] = {n.attribute: n.read(values, PREFIX + n.gguf_key) for n in NUMBERS}
    _check_gguf_constants(values, numbers["head_dim"])
    num_layers, num_nextn = _layer_counts(values, shapes)
    key = PREFIX + _EXPERT_SIZE.gguf_key
    hp = _build(
        numbers,
        num_layers=num_layers,
        num_nextn_layers=num_nextn,
        expert_size=_EXPERT_SIZE.read({key: uniform(values, key)}, key),
        norm_topk=truth(values, PREFIX + "expert_weights_norm"),
        compress_ratios=choice_per_layer(values, PREFIX + "attention.compress_ratios", num_layers, COMPRESS_RATIOS),
        swiglu_limits=real_per_layer(values, PREFIX + "swiglu_clamp_exp", num_layers, *_SWIGLU_BOUNDS),
        shared_swiglu_limits=real_per_layer(
            values,
            PREFIX + ("swiglu_clamp_shexp" if PREFIX + "swiglu_clamp_shexp" in values else "swiglu_clamp_exp"),
            num_layers,
            *_SWIGLU_BOUNDS,
        ),
        **_yarn_from_metadata(values),
    )
    _check_consistency(hp, {n.attribute: PREFIX + n.gguf_key for n in (*NUMBERS, *YARN)})
    return hp


def _check_gguf_constants(values: Mapping[str, object], head_dim: object) -> None:
    """Keys with one value that we implement."""
    constants: dict[str, tuple[object, ...]] = {
        "attention.head_count_kv": (1,),
        "attention.value_length": (head_dim,),
        "expert_gating_func": (SQRT_SOFTPLUS, MISSING),
        "expert_group_count": (0, 1, MISSING),  # one group of all experts is no grouping
        "expert_group_used_count": (0, 1, MISSING),
    }
    for key, allowed in constants.items():
        found = uniform(values, PREFIX + key)
        if found not in allowed:
            raise refuse(PREFIX + key, found, repr(allowed[0]))


def _layer_counts(values: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
    """Main layers and MTP layers; llama.cpp's MTP files count both kinds in block_count (model.md 4.6)."""
    block_count = whole_number(values, PREFIX + "block_count", 1, MAX_LAYERS)
    key = PREFIX + "nextn_predict_layers"
    num_nextn = whole_number(values, key, 0, block_count - 1) if key in values else 0
    if num_nextn and f"blk.{block_count - num_nextn}.nextn.eh_proj.weight" not in shapes:
        num_nextn = 0  # announced but not there: block_count means main layers, as in llama.cpp
    return block_count - num_nextn, num_nextn


def _yarn_from_metadata(values: Mapping[str, object]) -> Mapping[str, object]:
    kind = values.get(PREFIX + "rope.scaling.type", MISSING)
    if kind is not MISSING and not isinstance(kind, str):  # an array cannot even be compared
        raise refuse(PREFIX + "rope.scaling.type", kind, "'yarn' or 'none'")
    key = PREFIX + YARN_FACTOR.gguf_key
    factor = _yarn_factor(values, key, kind)
    if kind == "none" or factor == 1:
        return _NO_YARN
    if kind not in ("yarn", MISSING):
        raise refuse(PREFIX + "rope.scaling.type", kind, "'yarn' or 'none'")
    return {"yarn_factor": factor} | {n.attribute: n.read(values, PREFIX + n.gguf_key) for n in YARN}


def _yarn_factor(values: Mapping[str, object], key: str, kind: object) -> int | float:
    """1 where nothing is said; who says yarn must also say how much."""
    if kind == "yarn" and values.get(key) is None:
        raise refuse(key, MISSING, "a number, because the scaling type is 'yarn'")
    return YARN_FACTOR.read(values, key)


def from_release_config(config: Mapping[str, object]) -> Hyperparameters:
    """Read config.json of a release (model.md 1); the same checks as for GGUF."""
    for key, allowed in _CONFIG_CONSTANTS.items():
        if config.get(key) not in allowed:
            raise refuse(key, config.get(key, MISSING), repr(allowed[0]))
    num_layers = whole_number(config, "num_hidden_layers", 1, MAX_LAYERS)
    limits = real_per_layer(config, "swiglu_limit", num_layers, *_SWIGLU_BOUNDS)
    nextn = "num_nextn_predict_layers"
    hp = _build(
        {n.attribute: n.read(config, n.config_key) for n in NUMBERS},
        num_layers=num_layers,
        num_nextn_layers=whole_number(config, nextn, 0, 16) if config.get(nextn) is not None else 0,
        expert_size=_EXPERT_SIZE.read(config, _EXPERT_SIZE.config_key),
        norm_topk=truth(config, "norm_topk_prob"),
        compress_ratios=choice_per_layer(config, "compress_ratios", num_layers, COMPRESS_RATIOS),
        swiglu_limits=limits,
        shared_swiglu_limits=limits,
        **_yarn_from_config(config.get("rope_scaling")),
    )
    _check_consistency(hp, {n.attribute: n.config_key for n in (*NUMBERS, *YARN)})
    return hp


_CONFIG_CONSTANTS: dict[str, tuple[object, ...]] = {
    "model_type": ("deepseek_v4",),
    "num_key_value_heads": (1,),
    "scoring_func": ("sqrtsoftplus", None),
    "topk_method": ("noaux_tc", None),
    "hidden_act": ("silu", None),
    "n_group": (0, 1, None),
    "topk_group": (0, 1, None),
    "tie_word_embeddings": (False, None),
    "attention_bias": (False, None),
}


def _yarn_from_config(scaling: object) -> Mapping[str, object]:
    if scaling is None:
        return _NO_YARN
    if not isinstance(scaling, Mapping):
        raise refuse("rope_scaling", scaling, "an object with type 'yarn', or null")
    kind = scaling.get("rope_type", scaling.get("type", "yarn"))
    values = {f"rope_scaling.{key}": value for key, value in scaling.items()}
    factor = _yarn_factor(values, "rope_scaling.factor", kind)
    if kind in ("default", "none") or factor == 1:
        return _NO_YARN
    if kind != "yarn":
        raise refuse("rope_scaling.type", kind, "'yarn'")
    return {"yarn_factor": factor} | {n.attribute: n.read(values, f"rope_scaling.{n.config_key}") for n in YARN}


def _build(numbers: Mapping[str, object], **others: object) -> Hyperparameters:
    return Hyperparameters(**numbers, **others)  # type: ignore[arg-type]  # every value was read by a checked reader


def _check_consistency(hp: Hyperparameters, keys: Mapping[str, str]) -> None:
    """What no single key can show. `keys` names the attributes in the reader's source."""
    rules = (
        ("num_output_groups", hp.num_heads % hp.num_output_groups == 0, f"a divisor of {hp.num_heads} heads"),
        ("rope_dims", hp.rope_dims % 2 == 0, "an even number"),
        ("rope_dims", hp.rope_dims <= hp.head_dim, f"at most the head's {hp.head_dim}"),
        ("rope_dims", hp.rope_dims <= hp.index_head_dim, f"at most the index head's {hp.index_head_dim}"),
        ("index_head_dim", hp.index_head_dim & (hp.index_head_dim - 1) == 0, "a power of two"),
        ("num_experts_used", hp.num_experts_used <= hp.num_experts, f"at most the {hp.num_experts} experts"),
        ("num_hash_layers", hp.num_hash_layers <= hp.num_layers, f"at most the {hp.num_layers} layers"),
        ("yarn_beta_fast", hp.yarn_beta_fast > hp.yarn_beta_slow, f"more than beta_slow {hp.yarn_beta_slow:g}"),
        ("norm_topk", hp.norm_topk, "True: only normalised expert weights are implemented"),
    )
    labels = {"norm_topk": "norm_topk_prob / expert_weights_norm", **keys}
    for attribute, holds, expected in rules:
        if not holds:
            raise refuse(labels[attribute], getattr(hp, attribute), expected)


def to_metadata(hp: Hyperparameters) -> dict[str, MetadataEntry]:
    """Every key of model.md 4.2 for a file with the main model, those that only llama.cpp asks for included."""
    scalars = {PREFIX + n.gguf_key: n.entry(getattr(hp, n.attribute)) for n in (*NUMBERS, _EXPERT_SIZE)}
    return {
        "general.architecture": (ValueType.STRING, ARCHITECTURE),
        PREFIX + "block_count": (ValueType.UINT32, hp.num_layers),
        **scalars,
        PREFIX + "attention.head_count_kv": (ValueType.UINT32, 1),
        PREFIX + "attention.value_length": (ValueType.UINT32, hp.head_dim),
        PREFIX + "attention.compress_ratios": (ValueType.ARRAY, np.array(hp.compress_ratios, np.int32)),
        PREFIX + "expert_weights_norm": (ValueType.BOOL, hp.norm_topk),
        PREFIX + "expert_gating_func": (ValueType.UINT32, SQRT_SOFTPLUS),
        PREFIX + "swiglu_clamp_exp": (ValueType.ARRAY, np.array(hp.swiglu_limits, np.float32)),
        PREFIX + "swiglu_clamp_shexp": (ValueType.ARRAY, np.array(hp.shared_swiglu_limits, np.float32)),
        PREFIX + "embedding_length_out": (ValueType.UINT32, hp.hc_streams * hp.hidden_size),
        **_yarn_entries(hp),
    }


def _yarn_entries(hp: Hyperparameters) -> dict[str, MetadataEntry]:
    if not hp.has_yarn:
        return {PREFIX + "rope.scaling.type": (ValueType.STRING, "none")}
    return {PREFIX + "rope.scaling.type": (ValueType.STRING, "yarn")} | {
        PREFIX + n.gguf_key: n.entry(getattr(hp, n.attribute)) for n in (YARN_FACTOR, *YARN)
    }
