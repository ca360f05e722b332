"""What nano is: the numbers of its architecture, and the release configuration they make."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """DeepSeek V4 at nano's size. A toy of other numbers is fine as long as rope stays 64 of head_dim and streams 4."""

    vocab: int = 4096
    hidden: int = 256
    layers: int = 6
    compress_ratios: tuple[int, ...] = (0, 0, 4, 128, 4, 128)
    heads: int = 8
    head_dim: int = 128
    query_rank: int = 128
    output_groups: int = 2
    output_rank: int = 128
    window: int = 128
    index_heads: int = 4
    index_head_dim: int = 128
    index_top_k: int = 64
    expert_width: int = 256
    experts: int = 8
    experts_used: int = 2
    hash_layers: int = 2
    swiglu_limit: float = 10.0
    routed_scale: float = 1.5
    streams: int = field(default=4, init=False)
    rope_dims: int = field(default=64, init=False)
    rope_theta: float = field(default=10000.0, init=False)
    compress_rope_theta: float = field(default=160000.0, init=False)
    rope_factor: float = field(default=16.0, init=False)

    def ratio(self, layer: int) -> int:
        """Tokens per compressed row; 0 for a layer without, as the MTP block (which follows the last layer) is."""
        return self.compress_ratios[layer] if layer < self.layers else 0

    def release_config(self, mtp_blocks: int) -> dict[str, object]:
        """The `config.json` of a release folder."""
        return {
            "architectures": ["DeepseekV4ForCausalLM"],
            "model_type": "deepseek_v4",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "max_position_embeddings": 32768,
            "moe_intermediate_size": self.expert_width,
            "n_routed_experts": self.experts,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_attention_heads": self.heads,
            "num_experts_per_tok": self.experts_used,
            "num_hidden_layers": self.layers,
            "num_hash_layers": self.hash_layers,
            "num_key_value_heads": 1,
            "num_nextn_predict_layers": mtp_blocks,
            "head_dim": self.head_dim,
            "q_lora_rank": self.query_rank,
            "qk_rope_head_dim": self.rope_dims,
            "o_groups": self.output_groups,
            "o_lora_rank": self.output_rank,
            "index_n_heads": self.index_heads,
            "index_head_dim": self.index_head_dim,
            "index_topk": self.index_top_k,
            "rms_norm_eps": 1e-6,
            "rope_theta": self.rope_theta,
            "compress_rope_theta": self.compress_rope_theta,
            "compress_ratios": list(self.compress_ratios),
            "sliding_window": self.window,
            "swiglu_limit": self.swiglu_limit,
            "routed_scaling_factor": self.routed_scale,
            "scoring_func": "sqrtsoftplus",
            "topk_method": "noaux_tc",
            "hc_mult": self.streams,
            "hc_sinkhorn_iters": 20,
            "hc_eps": 1e-6,
            "tie_word_embeddings": False,
            "use_cache": True,
            "vocab_size": self.vocab,
            "torch_dtype": "bfloat16",
            "rope_scaling": {
                "type": "yarn",
                "factor": self.rope_factor,
                "original_max_position_embeddings": 65536,
                "beta_fast": 32,
                "beta_slow": 1,
            },
        }
