"""Names: the three spellings meet in one canonical one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.gguf.census import expected_tensors, mtp_tensors
from whitedwarf.gguf.names import (
    EXPERT_PLACE,
    ReleasePart,
    canonical_name,
    canonical_to_release,
    is_duplicate_in_mtp,
    normalise_release_name,
    release_to_canonical,
)
from whitedwarf.gguf.synth_shapes import model_shape

ALL_CANONICAL = sorted(expected_tensors(model_shape("tiny")) | mtp_tensors(model_shape("tiny")))


@given(name=st.sampled_from(ALL_CANONICAL), expert=st.integers(0, 383))
def test_every_canonical_name_returns_from_its_release_name(name: str, expert: int) -> None:
    release = canonical_to_release(name)
    assert release is not None
    is_routed = EXPERT_PLACE in release
    placed = release_to_canonical(release.replace(EXPERT_PLACE, str(expert)))
    assert placed == ReleasePart(name, expert if is_routed else None)


def test_no_two_canonical_names_share_a_release_name() -> None:
    releases = [canonical_to_release(name) for name in ALL_CANONICAL]
    assert len(set(releases)) == len(ALL_CANONICAL)


@pytest.mark.parametrize("name", ALL_CANONICAL)
def test_canonical_names_are_left_alone(name: str) -> None:
    assert canonical_name(name) == name


@given(st.text(max_size=40))
def test_any_text_is_a_name_and_canonicalising_twice_changes_nothing(text: str) -> None:
    once = canonical_name(text)
    assert canonical_name(once) == once
    assert release_to_canonical(text) is None or text.isascii()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hc_head_base", "output_hc_base.weight"),
        ("hc_head_fn", "output_hc_fn.weight"),
        ("hc_head_scale.weight", "output_hc_scale.weight"),
        ("blk.3.attn_kv_latent.weight", "blk.3.attn_kv.weight"),
        ("blk.12.attn_compress_kv.weight", "blk.12.attn_compressor_kv.weight"),
        ("blk.12.attn_compress_ape", "blk.12.attn_compressor_ape.weight"),
        ("blk.2.indexer.compress_gate.weight", "blk.2.indexer_compressor_gate.weight"),
        ("blk.2.indexer.compress_norm", "blk.2.indexer_compressor_norm.weight"),
        ("blk.7.hc_attn_base", "blk.7.hc_attn_base.weight"),
        ("blk.7.attn_sinks", "blk.7.attn_sinks.weight"),
        ("blk.7.exp_probs_b", "blk.7.exp_probs_b.bias"),
        ("mtp.0.hc_head_fn", "mtp.0.hc_head_fn.weight"),
    ],
)
def test_the_older_community_dialect_is_understood(old: str, new: str) -> None:
    assert canonical_name(old) == new


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("model.layers.4.self_attn.wq_a.weight", ReleasePart("blk.4.attn_q_a.weight")),
        ("layers.4.attn.wq_a.weight_scale_inv", ReleasePart("blk.4.attn_q_a.weight", is_scale=True)),
        ("layers.4.attn.wq_a.scale", ReleasePart("blk.4.attn_q_a.weight", is_scale=True)),
        ("model.layers.5.mlp.gate.e_score_correction_bias", ReleasePart("blk.5.exp_probs_b.bias")),
        ("layers.5.ffn.experts.17.w2.scale", ReleasePart("blk.5.ffn_down_exps.weight", 17, True)),
        ("mtp.0.ffn.experts.3.w1.weight", ReleasePart("mtp.0.ffn_gate_exps.weight", 3)),
        ("model.embed_tokens.weight", ReleasePart("token_embd.weight")),
        ("lm_head.weight", ReleasePart("output.weight")),
        ("mtp.0.hc_head_scale", ReleasePart("mtp.0.hc_head_scale.weight")),
        ("hc_head_scale", ReleasePart("output_hc_scale.weight")),
    ],
)
def test_alternative_release_spellings_are_normalised(spelling: str, canonical: ReleasePart) -> None:
    assert release_to_canonical(spelling) == canonical


@pytest.mark.parametrize(
    "name", ["mtp.0.main_proj.weight", "layers.0.attn.wq_c.weight", "vision.embed.weight", "", "layers.x"]
)
def test_names_without_a_place_have_none(name: str) -> None:
    assert release_to_canonical(name) is None
    assert canonical_to_release(name) is None


def test_embedding_and_head_repeated_in_mtp_are_recognised() -> None:
    assert is_duplicate_in_mtp("mtp.0.head.weight")
    assert is_duplicate_in_mtp("model.mtp.0.embed_tokens.weight")
    assert not is_duplicate_in_mtp("head.weight")
    assert not is_duplicate_in_mtp("mtp.0.e_proj.weight")


def test_normalising_twice_changes_nothing() -> None:
    once = normalise_release_name("model.layers.0.self_attn.wkv.weight_scale_inv")
    assert once == normalise_release_name(once) == "layers.0.attn.wkv.scale"
