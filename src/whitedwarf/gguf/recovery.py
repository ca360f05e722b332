"""The keys that early community files lack (model.md 4.6), read off the shapes of their tensors.

Promises only to supply keys that are missing, never to overrule one. What it supplies is validated like anything else
that was read from the file.
"""

from collections.abc import Mapping

PREFIX = "deepseek4."

Shapes = Mapping[str, tuple[int, ...]]  # canonical name -> numpy order, slowest axis first

# Not visible in any shape; the same in every released model.
_CONSTANTS: dict[str, object] = {
    "hyper_connection.sinkhorn_iterations": 20,
    "hyper_connection.epsilon": 1e-6,
    "attention.compress_rope_freq_base": 160000.0,
}


def recover_missing(metadata: Mapping[str, object], shapes: Shapes) -> dict[str, object]:
    """Values for those of the recoverable keys (with prefix) that `metadata` does not have."""
    guesses = {
        **_CONSTANTS,
        **_vocabulary(metadata, shapes),
        **_output_projection(metadata, shapes),
        **_hyper_connections(metadata, shapes),
        "hash_layer_count": sum(name.endswith(".ffn_gate_tid2eid.weight") for name in shapes),
        "attention.compress_ratios": _compress_ratios(metadata, shapes),
    }
    return {PREFIX + key: value for key, value in guesses.items() if PREFIX + key not in metadata}


def _vocabulary(metadata: Mapping[str, object], shapes: Shapes) -> dict[str, object]:
    embedding = shapes.get("token_embd.weight", ())
    if len(embedding) == 2:
        return {"vocab_size": embedding[0]}
    tokens = metadata.get("tokenizer.ggml.tokens")
    return {"vocab_size": len(tokens)} if isinstance(tokens, list) else {}


def _output_projection(metadata: Mapping[str, object], shapes: Shapes) -> dict[str, object]:
    output_a = shapes.get("blk.0.attn_output_a.weight", ())
    heads = metadata.get(PREFIX + "attention.head_count")
    head_dim = metadata.get(PREFIX + "attention.key_length")
    if len(output_a) != 2 or not isinstance(heads, int) or not isinstance(head_dim, int):
        return {}
    groups = heads * head_dim // max(output_a[1], 1)
    return {"attention.output_group_count": groups, "attention.output_lora_rank": output_a[0] // max(groups, 1)}


def _hyper_connections(metadata: Mapping[str, object], shapes: Shapes) -> dict[str, object]:
    mixer = shapes.get("blk.0.hc_attn_fn.weight", ())
    hidden = metadata.get(PREFIX + "embedding_length")
    if len(mixer) != 2 or not isinstance(hidden, int) or hidden < 1:
        return {}
    return {"hyper_connection.count": mixer[1] // hidden}


def _compress_ratios(metadata: Mapping[str, object], shapes: Shapes) -> list[int]:
    """0 where a layer has no compressor; otherwise the number of positions in its position bias."""
    num_layers = metadata.get(PREFIX + "block_count")
    if not isinstance(num_layers, int) or num_layers > len(
        shapes
    ):  # every layer has tensors: no bomb from a bare number
        return []
    biases = [shapes.get(f"blk.{layer}.attn_compressor_ape.weight") for layer in range(num_layers)]
    return [0 if bias is None else bias[0] for bias in biases]
