"""Read a GGUF file for the transcription, through the public `gguf` package and not through our own reader.

Promises: every tensor as float64 (tables of ids too) under its name in the file, and the numbers of the metadata.
Does not know: the older community dialect, split files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf.quants import dequantize

import gguf
from oracle.transcription import Array, Model, Numbers


def read_metadata(path: Path) -> dict[str, Any]:
    return {name: entry.contents() for name, entry in gguf.GGUFReader(path).fields.items()}


def read_tensors(path: Path) -> dict[str, Array]:
    return {tensor.name: _widened(tensor) for tensor in gguf.GGUFReader(path).tensors}


def _widened(tensor: gguf.ReaderTensor) -> Array:
    if tensor.tensor_type == gguf.GGMLQuantizationType.I32:
        return tensor.data.astype(np.float64)
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float64)


def per_layer(value: float | list[float], layers: int) -> tuple[float, ...]:
    """A clamp may be written once or once per layer."""
    return tuple(value) if isinstance(value, list) else (value,) * layers


def numbers_of(metadata: Mapping[str, Any]) -> Numbers:
    def key(name: str) -> Any:
        return metadata[f"deepseek4.{name}"]

    layers = key("block_count")
    clamp_routed = per_layer(key("swiglu_clamp_exp"), layers)
    scaled = metadata.get("deepseek4.rope.scaling.type") == "yarn"
    return Numbers(
        layers=layers,
        hidden=key("embedding_length"),
        heads=key("attention.head_count"),
        head_dim=key("attention.key_length"),
        rope_dim=key("rope.dimension_count"),
        window=key("attention.sliding_window"),
        ratios=tuple(key("attention.compress_ratios")[:layers]),
        hash_layers=key("hash_layer_count"),
        experts_used=key("expert_used_count"),
        expert_scale=key("expert_weights_scale"),
        normalise_expert_weights=key("expert_weights_norm"),
        clamp_routed=clamp_routed,
        clamp_shared=per_layer(metadata.get("deepseek4.swiglu_clamp_shexp", list(clamp_routed)), layers),
        output_groups=key("attention.output_group_count"),
        index_heads=key("attention.indexer.head_count"),
        index_head_dim=key("attention.indexer.key_length"),
        index_topk=key("attention.indexer.top_k"),
        streams=key("hyper_connection.count"),
        sinkhorn_iterations=key("hyper_connection.sinkhorn_iterations"),
        hyper_epsilon=key("hyper_connection.epsilon"),
        norm_epsilon=key("attention.layer_norm_rms_epsilon"),
        rope_base=key("rope.freq_base"),
        compress_rope_base=key("attention.compress_rope_freq_base"),
        yarn_factor=key("rope.scaling.factor") if scaled else 1.0,
        yarn_original_context=key("rope.scaling.original_context_length") if scaled else 0,
        yarn_beta_fast=key("rope.scaling.yarn_beta_fast") if scaled else 0.0,
        yarn_beta_slow=key("rope.scaling.yarn_beta_slow") if scaled else 0.0,
    )


def load_model(path: Path) -> Model:
    return Model(numbers_of(read_metadata(path)), read_tensors(path))
