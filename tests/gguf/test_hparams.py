"""Hyperparameters: every size of the architecture is read, everything else is refused by name."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import NotDeepSeekV4Error
from whitedwarf.gguf.census import ExpectedTensor, expected_tensors
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata, from_release_config, to_metadata
from whitedwarf.gguf.synth_shapes import ModelShape, model_shape
from whitedwarf.gguf.types import ValueType

TINY = model_shape("tiny")
SHAPES: list[ModelShape] = ["tiny", "flash", "pro"]


def plain(hp: Hyperparameters) -> dict[str, object]:
    return {key: value for key, (_, value) in to_metadata(hp).items()}


def read(changes: Mapping[str, object], *, without: tuple[str, ...] = ()) -> Hyperparameters:
    metadata = plain(TINY) | {f"deepseek4.{key}": value for key, value in changes.items()}
    for key in without:
        del metadata[f"deepseek4.{key}"]
    return from_metadata(metadata, expected_tensors(TINY))


def close(found: Hyperparameters, wanted: Hyperparameters) -> bool:
    """Equal but for the rounding of floats to f32."""
    return replace(found, hc_epsilon=wanted.hc_epsilon, rms_epsilon=wanted.rms_epsilon) == wanted and all(
        math.isclose(a, b, rel_tol=1e-6)
        for a, b in ((found.hc_epsilon, wanted.hc_epsilon), (found.rms_epsilon, wanted.rms_epsilon))
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_written_is_read_back(shape: ModelShape) -> None:
    hp = model_shape(shape)
    assert close(from_metadata(plain(hp), expected_tensors(hp)), hp)


def test_the_whole_flash_model_has_the_published_numbers() -> None:
    hp = model_shape("flash")
    assert (hp.num_layers, hp.hidden_size, hp.num_experts) == (43, 4096, 256)
    assert hp.compress_ratios.count(0) == 2
    assert hp.compress_ratios.count(4) == 21
    assert hp.compress_ratios.count(128) == 20
    assert hp.output_group_width == 4096
    assert [hp.is_hash_layer(layer) for layer in range(5)] == [True, True, True, False, False]


def test_the_whole_pro_model_has_the_published_numbers() -> None:
    hp = model_shape("pro")
    assert (hp.num_layers, hp.compress_ratios[:4]) == (61, (128, 128, 4, 128))
    assert hp.compress_ratios.count(4) == 30
    assert hp.output_group_width == 4096


def test_every_key_that_llama_cpp_asks_for_is_written() -> None:
    keys = set(to_metadata(TINY))
    for key in (
        "attention.value_length",
        "attention.head_count_kv",
        "expert_gating_func",
        "swiglu_clamp_shexp",
        "rope.scaling.type",
        "embedding_length_out",
        "expert_weights_norm",
        "attention.compress_rope_freq_base",
    ):
        assert f"deepseek4.{key}" in keys


def test_integers_are_written_as_u32_and_floats_as_f32() -> None:
    entries = to_metadata(TINY)
    assert entries["deepseek4.block_count"] == (ValueType.UINT32, TINY.num_layers)
    assert entries["deepseek4.rope.freq_base"] == (ValueType.FLOAT32, 10000.0)
    kind, ratios = entries["deepseek4.attention.compress_ratios"]
    assert kind is ValueType.ARRAY
    assert isinstance(ratios, np.ndarray)
    assert ratios.dtype == np.int32


def test_floats_may_be_spelt_as_integers() -> None:
    assert read({"rope.freq_base": 10000, "expert_weights_scale": np.uint32(2)}).expert_weights_scale == 2.0


def test_the_swiglu_limit_may_be_one_number_or_one_per_layer() -> None:
    assert read({"swiglu_clamp_exp": 7}).swiglu_limits == (7.0,) * TINY.num_layers
    longer = [float(layer + 1) for layer in range(TINY.num_layers + 1)]
    assert read({"swiglu_clamp_exp": longer}).swiglu_limits == tuple(longer[:-1])


def test_the_shared_swiglu_limit_defaults_to_the_routed_one() -> None:
    hp = read({"swiglu_clamp_exp": 7.0}, without=("swiglu_clamp_shexp",))
    assert hp.shared_swiglu_limits == hp.swiglu_limits


def test_the_expert_size_may_be_an_array_of_equal_values() -> None:
    key = "expert_feed_forward_length"
    assert read({key: np.full(TINY.num_layers, TINY.expert_size)}).expert_size == TINY.expert_size
    with pytest.raises(NotDeepSeekV4Error, match=key):
        read({key: [256, 512]})


def test_further_compress_ratios_belong_to_draft_blocks_and_are_dropped() -> None:
    assert read({"attention.compress_ratios": [*TINY.compress_ratios, 0, 0, 0]}) == read({})


def test_a_missing_gating_function_means_sqrtsoftplus() -> None:
    assert read({}, without=("expert_gating_func",)) == read({})


def test_without_a_scaling_factor_there_is_no_yarn() -> None:
    keys = ("factor", "type", "original_context_length", "yarn_beta_fast", "yarn_beta_slow")
    hp = read({}, without=tuple(f"rope.scaling.{key}" for key in keys))
    assert not hp.has_yarn
    assert hp.yarn_factor == 1.0
    assert from_metadata(plain(hp), expected_tensors(hp)) == hp


def test_the_eight_keys_that_old_files_lack_come_from_the_tensors() -> None:
    missing = (
        "attention.output_lora_rank",
        "attention.output_group_count",
        "hash_layer_count",
        "hyper_connection.count",
        "hyper_connection.sinkhorn_iterations",
        "hyper_connection.epsilon",
        "attention.compress_rope_freq_base",
        "attention.compress_ratios",
    )
    assert close(read({}, without=missing), TINY)


def test_old_tensor_names_serve_the_recovery_too() -> None:
    tensors = {
        name.replace("attn_compressor_ape.weight", "attn_compress_ape"): tensor
        for name, tensor in expected_tensors(TINY).items()
    }
    metadata = plain(TINY)
    del metadata["deepseek4.attention.compress_ratios"], metadata["deepseek4.vocab_size"]
    assert close(from_metadata(metadata, tensors), TINY)


def test_the_vocabulary_may_be_counted_on_the_tokens() -> None:
    metadata: dict[str, object] = plain(TINY) | {"tokenizer.ggml.tokens": ["a"] * TINY.vocab_size}
    del metadata["deepseek4.vocab_size"]
    assert from_metadata(metadata, {}).vocab_size == TINY.vocab_size


def test_an_mtp_file_counts_its_draft_layer_in_block_count() -> None:
    metadata = plain(TINY) | {"deepseek4.block_count": TINY.num_layers + 1, "deepseek4.nextn_predict_layers": 1}
    projection = {f"blk.{TINY.num_layers}.nextn.eh_proj.weight": ExpectedTensor((256, 512))}
    hp = from_metadata(metadata, projection)
    assert (hp.num_layers, hp.num_nextn_layers) == (TINY.num_layers, 1)


def test_an_announced_draft_layer_that_is_not_there_is_ignored() -> None:
    hp = read({"nextn_predict_layers": 1})
    assert (hp.num_layers, hp.num_nextn_layers) == (TINY.num_layers, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.head_count_kv", 2),
        ("attention.value_length", 64),
        ("attention.output_group_count", 3),
        ("attention.compress_ratios", [0, 0, 4, 64, 4, 128]),
        ("attention.compress_ratios", [0, 0, 4]),
        ("attention.compress_ratios", 4),
        ("attention.indexer.key_length", 96),
        ("rope.dimension_count", 15),
        ("rope.dimension_count", 130),
        ("rope.scaling.type", "linear"),
        ("rope.freq_base", float("nan")),
        ("rope.freq_base", float("inf")),
        ("rope.freq_base", -1.0),
        ("rope.freq_base", True),
        ("rope.scaling.yarn_beta_fast", 0.5),
        ("expert_gating_func", 2),
        ("expert_group_count", 8),
        ("expert_used_count", 9),
        ("expert_shared_count", 2),
        ("expert_weights_norm", False),
        ("expert_weights_norm", "yes"),
        ("hash_layer_count", 7),
        ("hyper_connection.count", 2),
        ("hyper_connection.epsilon", 0.0),
        ("embedding_length", 0),
        ("embedding_length", 1 << 40),
        ("embedding_length", 256.0),
        ("context_length", -5),
        ("block_count", 1 << 31),
        ("attention.sliding_window", 1 << 30),
        ("swiglu_clamp_exp", [10.0, 10.0, float("nan"), 10.0, 10.0, 10.0]),
        ("swiglu_clamp_exp", [10.0]),
        ("swiglu_clamp_exp", "ten"),
    ],
)
def test_a_value_we_cannot_run_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(NotDeepSeekV4Error, match=key.split(".")[-1]):
        read({key: value})


@pytest.mark.parametrize(
    "key", ["embedding_length", "attention.head_count", "swiglu_clamp_exp", "rope.scaling.original_context_length"]
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(NotDeepSeekV4Error, match=rf"{key}: found nothing"):
        read({}, without=(key,))


def test_another_architecture_is_refused() -> None:
    with pytest.raises(NotDeepSeekV4Error, match=r"general\.architecture: found 'llama', expected 'deepseek4'"):
        from_metadata({"general.architecture": "llama"}, {})
    with pytest.raises(NotDeepSeekV4Error, match="found nothing"):
        from_metadata({}, {})


garbage = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-9, 999), max_size=9),
)


@given(key=st.sampled_from(sorted(plain(TINY))), value=garbage)
def test_garbage_under_any_key_is_refused_or_gives_a_sound_model(key: str, value: object) -> None:
    try:
        hp = from_metadata(plain(TINY) | {key: value}, {})
    except NotDeepSeekV4Error:
        return
    assert hp.num_heads % hp.num_output_groups == 0
    assert len(hp.compress_ratios) == len(hp.swiglu_limits) == hp.num_layers
    assert math.isfinite(hp.rope_base)


def config(**changes: object) -> dict[str, object]:
    flash: dict[str, object] = {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 43,
        "hidden_size": 4096,
        "vocab_size": 129280,
        "max_position_embeddings": 1048576,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "q_lora_rank": 1024,
        "o_groups": 8,
        "o_lora_rank": 1024,
        "n_routed_experts": 256,
        "num_experts_per_tok": 6,
        "n_shared_experts": 1,
        "moe_intermediate_size": 2048,
        "routed_scaling_factor": 1.5,
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 512,
        "num_hash_layers": 3,
        "num_nextn_predict_layers": 1,
        "sliding_window": 128,
        "rms_norm_eps": 1e-6,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "swiglu_limit": 10.0,
        "scoring_func": "sqrtsoftplus",
        "norm_topk_prob": True,
        "topk_method": "noaux_tc",
        "rope_theta": 10000,
        "compress_rope_theta": 160000,
        "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
        "rope_scaling": {
            "type": "yarn",
            "factor": 16,
            "original_max_position_embeddings": 65536,
            "beta_fast": 32,
            "beta_slow": 1,
        },
    }
    return flash | changes


def test_a_release_config_describes_flash() -> None:
    hp = from_release_config(config())
    assert hp == replace(model_shape("flash"), num_nextn_layers=1)


def test_who_says_yarn_must_say_the_factor() -> None:
    with pytest.raises(NotDeepSeekV4Error, match=r"rope\.scaling\.factor: found nothing.*'yarn'"):
        read({}, without=("rope.scaling.factor",))
    with pytest.raises(NotDeepSeekV4Error, match=r"rope_scaling\.factor: found nothing.*'yarn'"):
        from_release_config(config(rope_scaling={"type": "yarn", "original_max_position_embeddings": 65536}))


def test_yarn_may_be_spelt_with_type_or_rope_type() -> None:
    scaling = {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    assert from_release_config(config(rope_scaling=scaling)) == from_release_config(config())


@pytest.mark.parametrize("scaling", [None, {"rope_type": "default"}, {"type": "yarn", "factor": 1}])
def test_a_config_without_scaling_has_no_yarn(scaling: object) -> None:
    assert not from_release_config(config(rope_scaling=scaling)).has_yarn


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "deepseek_v3"),
        ("num_key_value_heads", 8),
        ("scoring_func", "sigmoid"),
        ("n_group", 8),
        ("tie_word_embeddings", True),
        ("hidden_act", "gelu"),
        ("rope_scaling", {"type": "linear", "factor": 2}),
        ("rope_scaling", {"type": "yarn", "factor": 16}),
        ("rope_scaling", "yarn"),
        ("hidden_size", None),
        ("compress_ratios", None),
        ("o_groups", 7),
        ("norm_topk_prob", False),
    ],
)
def test_a_config_we_cannot_run_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(NotDeepSeekV4Error, match=key):
        from_release_config(config(**{key: value}))
