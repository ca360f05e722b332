"""Which type each tensor gets: model.md 4.3 for the recipes, 5.4 for the order of the rules."""

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.gguf.recipes import (
    RECIPES,
    Choice,
    Family,
    TypeRules,
    choose,
    family_of,
    fitting,
    parse_prefix,
    parse_type,
    unused_prefixes,
)
from whitedwarf.gguf.types import GgmlType

MATRIX, EXPERTS, VECTOR = (64, 256), (4, 64, 256), (256,)
FAMILIES: list[tuple[str, tuple[int, ...], Family | None]] = [
    ("token_embd.weight", MATRIX, "embedding"),
    ("output.weight", MATRIX, "output"),
    ("output_norm.weight", VECTOR, None),
    ("output_hc_fn.weight", MATRIX, "dense"),
    ("output_hc_base.weight", (4,), None),
    ("blk.3.hc_attn_fn.weight", MATRIX, "dense"),
    ("blk.3.attn_norm.weight", VECTOR, None),
    ("blk.3.attn_q_a.weight", MATRIX, "attention-proj"),
    ("blk.3.attn_q_b.weight", MATRIX, "attention-proj"),
    ("blk.3.attn_kv.weight", MATRIX, "attention-proj"),
    ("blk.3.attn_output_a.weight", MATRIX, "attention-proj"),
    ("blk.3.attn_output_b.weight", MATRIX, "attention-proj"),
    ("blk.3.attn_sinks.weight", (8,), None),
    ("blk.3.attn_compressor_kv.weight", MATRIX, "attention"),
    ("blk.3.attn_compressor_ape.weight", MATRIX, "attention"),
    ("blk.3.indexer.attn_q_b.weight", MATRIX, "attention"),
    ("blk.3.indexer.proj.weight", MATRIX, "attention"),
    ("blk.3.indexer_compressor_gate.weight", MATRIX, "attention"),
    ("blk.3.ffn_gate_inp.weight", MATRIX, "dense"),
    ("blk.3.exp_probs_b.bias", (8,), None),
    ("blk.0.ffn_gate_tid2eid.weight", (768, 6), None),
    ("blk.3.ffn_gate_exps.weight", EXPERTS, "routed-w1"),
    ("blk.3.ffn_down_exps.weight", EXPERTS, "routed-w2"),
    ("blk.3.ffn_up_exps.weight", EXPERTS, "routed-w3"),
    ("blk.3.ffn_down_shexp.weight", MATRIX, "shared"),
    ("mtp.0.e_proj.weight", MATRIX, "dense"),
    ("mtp.0.ffn_up_exps.weight", EXPERTS, "routed-w3"),
    ("mtp.0.attn_kv.weight", MATRIX, "attention-proj"),
]
Q2 = TypeRules(RECIPES["q2"])


@pytest.mark.parametrize(("name", "shape", "family"), FAMILIES)
def test_every_tensor_has_its_family(name: str, shape: tuple[int, ...], family: Family | None) -> None:
    assert family_of(name, shape) == family


@pytest.mark.parametrize(
    ("name", "shape", "type"),
    [
        ("token_embd.weight", MATRIX, GgmlType.F16),
        ("output.weight", MATRIX, GgmlType.Q8_0),
        ("output_norm.weight", VECTOR, GgmlType.F32),
        ("output_hc_fn.weight", MATRIX, GgmlType.F16),
        ("blk.5.hc_ffn_fn.weight", MATRIX, GgmlType.F16),
        ("blk.5.attn_q_a.weight", MATRIX, GgmlType.Q8_0),
        ("blk.5.attn_q_a_norm.weight", VECTOR, GgmlType.F32),
        ("blk.5.attn_compressor_ape.weight", MATRIX, GgmlType.F16),
        ("blk.5.indexer.attn_q_b.weight", MATRIX, GgmlType.F16),
        ("blk.5.ffn_gate_inp.weight", MATRIX, GgmlType.F16),
        ("blk.5.exp_probs_b.bias", (8,), GgmlType.F32),
        ("blk.5.ffn_gate_exps.weight", EXPERTS, GgmlType.IQ2_XXS),
        ("blk.5.ffn_up_exps.weight", EXPERTS, GgmlType.IQ2_XXS),
        ("blk.5.ffn_down_exps.weight", EXPERTS, GgmlType.Q2_K),
        ("blk.5.ffn_up_shexp.weight", MATRIX, GgmlType.Q8_0),
        ("mtp.0.e_proj.weight", MATRIX, GgmlType.Q8_0),
        ("mtp.0.hc_head_fn.weight", MATRIX, GgmlType.F16),
        ("mtp.0.ffn_down_exps.weight", EXPERTS, GgmlType.Q4_K),
    ],
)
def test_q2_is_the_published_file(name: str, shape: tuple[int, ...], type: GgmlType) -> None:
    assert choose(name, shape, GgmlType.BF16, Q2) == Choice(type)


def test_the_other_recipes_differ_in_the_routed_experts_alone() -> None:
    for name, shape, _ in FAMILIES:
        ours = choose(name, shape, GgmlType.BF16, Q2).type
        for recipe, experts in (("q4", GgmlType.Q4_K), ("mxfp4", GgmlType.MXFP4)):
            rules = TypeRules(RECIPES[recipe])  # type: ignore[index]
            expected = experts if name.endswith("_exps.weight") else ours
            assert choose(name, shape, GgmlType.BF16, rules).type is expected, (recipe, name)


def test_q2_q4_has_richer_experts_in_the_chosen_layers() -> None:
    rules = TypeRules(RECIPES["q2-q4"], frozenset({0, 37}))
    types = [choose(f"blk.{layer}.ffn_up_exps.weight", EXPERTS, GgmlType.F16, rules).type for layer in (0, 1, 36, 37)]
    assert types == [GgmlType.Q4_K, GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, GgmlType.Q4_K]


def test_tables_stay_tables_and_vectors_what_they_are() -> None:
    every: dict[Family, GgmlType] = {"attention": GgmlType.Q4_K, "dense": GgmlType.Q4_K, "shared": GgmlType.Q4_K}
    assert choose("blk.0.ffn_gate_tid2eid.weight", (768, 6), GgmlType.I32, Q2).type is GgmlType.I32
    assert choose("blk.0.attn_norm.weight", VECTOR, GgmlType.BF16, TypeRules(families=every)).type is GgmlType.BF16


def test_a_prefix_beats_a_family_and_a_family_the_recipe() -> None:
    rules = TypeRules(
        RECIPES["q2"],
        families={"routed-w2": GgmlType.Q4_K, "output": GgmlType.F16},
        prefixes=(("blk.1", GgmlType.Q8_0), ("blk.1.ffn_down", GgmlType.MXFP4), ("blk.1.ffn", GgmlType.F16)),
    )
    assert choose("blk.0.ffn_down_exps.weight", EXPERTS, GgmlType.F32, rules) == Choice(GgmlType.Q4_K)
    assert choose("blk.1.ffn_down_exps.weight", EXPERTS, GgmlType.F32, rules) == Choice(GgmlType.MXFP4, True)
    assert choose("blk.1.ffn_up_exps.weight", EXPERTS, GgmlType.F32, rules) == Choice(GgmlType.F16, True)
    assert choose("blk.1.attn_kv.weight", MATRIX, GgmlType.F32, rules) == Choice(GgmlType.Q8_0, True)
    assert choose("output.weight", MATRIX, GgmlType.F32, rules) == Choice(GgmlType.F16)
    assert choose("output_hc_fn.weight", MATRIX, GgmlType.F32, rules) == Choice(GgmlType.F16)


def test_without_rules_everything_keeps_its_type() -> None:
    for name, shape, _ in FAMILIES:
        assert choose(name, shape, GgmlType.Q5_K, TypeRules()) == Choice(GgmlType.Q5_K)


def test_recipes_and_families_give_way_where_rows_do_not_fit_and_a_prefix_does_not() -> None:
    assert fitting(Choice(GgmlType.IQ2_XXS), "x", 128) is GgmlType.Q8_0
    assert fitting(Choice(GgmlType.Q8_0), "x", 24) is GgmlType.F16
    assert fitting(Choice(GgmlType.IQ2_XXS, True), "x", 512) is GgmlType.IQ2_XXS
    with pytest.raises(UsageError, match="x has rows of 128, but IQ2_XXS needs multiples of 256"):
        fitting(Choice(GgmlType.IQ2_XXS, True), "x", 128)
    asked = choose(
        "blk.2.attn_compressor_ape.weight", (4, 128), GgmlType.F32, TypeRules(families={"attention": GgmlType.Q2_K})
    )
    assert fitting(asked, "x", 128) is GgmlType.Q8_0


def test_prefixes_that_name_nothing_are_found() -> None:
    rules = TypeRules(prefixes=(("blk.1.", GgmlType.F16), ("blok", GgmlType.F16)))
    assert unused_prefixes(["blk.1.x", "blk.2.y"], rules) == ["blok"]


@pytest.mark.parametrize("text", ["q3_k", "i32", "", "Q8", "q6_k"])
def test_types_that_cannot_be_written_are_refused_with_those_that_can(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shared: got .*; expected one of bf16, f16, f32, iq2_xxs, mxfp4, q2_k"):
        parse_type("--shared", text)


def test_types_are_read_in_any_case() -> None:
    assert parse_type("--shared", " Q4_k ") is GgmlType.Q4_K
    assert parse_prefix("blk.1.=q8_0") == ("blk.1.", GgmlType.Q8_0)


@pytest.mark.parametrize("text", ["q8_0", "=q8_0", "blk", ""])
def test_a_prefix_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected PREFIX=TYPE"):
        parse_prefix(text)
