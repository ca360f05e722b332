"""Shapes of synthetic models: the published Flash and PRO with any number of layers and experts, and a tiny one.

Promises hyperparameters that `from_metadata` accepts. Knows nothing of files or weights.
"""

from dataclasses import replace
from itertools import chain, cycle, islice
from typing import Literal

from whitedwarf.errors import UsageError
from whitedwarf.gguf.hparams import MAX_LAYERS, Hyperparameters

ModelShape = Literal["flash", "pro", "tiny"]
NUM_HASH_LAYERS = 3

_FLASH = Hyperparameters(
    num_layers=43,
    hidden_size=4096,
    vocab_size=129280,
    context_length=1 << 20,
    num_heads=64,
    head_dim=512,
    rope_dims=64,
    q_lora_rank=1024,
    o_lora_rank=1024,
    num_output_groups=8,
    sliding_window=128,
    index_heads=64,
    index_head_dim=128,
    index_topk=512,
    compress_ratios=(),
    rope_base=10000.0,
    compress_rope_base=160000.0,
    yarn_factor=16.0,
    yarn_original_context=65536,
    yarn_beta_fast=32.0,
    yarn_beta_slow=1.0,
    num_experts=256,
    num_experts_used=6,
    num_shared_experts=1,
    expert_size=2048,
    expert_weights_scale=1.5,
    norm_topk=True,
    num_hash_layers=NUM_HASH_LAYERS,
    hc_streams=4,
    hc_iterations=20,
    hc_epsilon=1e-6,
    rms_epsilon=1e-6,
    swiglu_limits=(10.0,),
    shared_swiglu_limits=(10.0,),
)
_PRO = replace(
    _FLASH,
    num_layers=61,
    hidden_size=7168,
    num_heads=128,
    q_lora_rank=1536,
    num_output_groups=16,
    index_topk=1024,
    num_experts=384,
    expert_size=3072,
    expert_weights_scale=2.5,
)
# Every mechanism, in a model that a test can make and run in a blink. llama.cpp needs head_dim != index_head_dim, and
# few index heads would make ties at score 0.
_TINY = replace(
    _FLASH,
    num_layers=6,
    hidden_size=256,
    vocab_size=512,
    context_length=1 << 16,
    num_heads=4,
    head_dim=128,
    q_lora_rank=128,
    o_lora_rank=64,
    num_output_groups=2,
    sliding_window=32,
    index_heads=16,
    index_head_dim=64,
    index_topk=16,
    yarn_original_context=4096,
    num_experts=8,
    num_experts_used=2,
    expert_size=256,
)
_SHAPES: dict[ModelShape, Hyperparameters] = {"flash": _FLASH, "pro": _PRO, "tiny": _TINY}
_FIRST_RATIOS: dict[ModelShape, tuple[int, int]] = {"flash": (0, 0), "pro": (128, 128), "tiny": (0, 0)}


def model_shape(shape: ModelShape, layers: int | None = None, experts: int | None = None) -> Hyperparameters:
    """The named shape, with its first `layers` layers and with `experts` routed experts per layer (default: all)."""
    if shape not in _SHAPES:
        raise UsageError(f"shape {shape!r}: expected one of {', '.join(_SHAPES)}")
    hp = _SHAPES[shape]
    num_layers = hp.num_layers if layers is None else layers
    num_experts = hp.num_experts if experts is None else experts
    if not 1 <= num_layers <= MAX_LAYERS:
        raise UsageError(f"layers {num_layers}: expected 1 to {MAX_LAYERS}")
    if not 1 <= num_experts <= 8192:
        raise UsageError(f"experts {num_experts}: expected 1 to 8192")
    return replace(
        hp,
        num_layers=num_layers,
        num_experts=num_experts,
        num_experts_used=min(hp.num_experts_used, num_experts),
        num_hash_layers=min(NUM_HASH_LAYERS, num_layers),
        compress_ratios=tuple(islice(chain(_FIRST_RATIOS[shape], cycle((4, 128))), num_layers)),
        swiglu_limits=hp.swiglu_limits[:1] * num_layers,
        shared_swiglu_limits=hp.shared_swiglu_limits[:1] * num_layers,
    )
