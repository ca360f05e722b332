"""Synthetic models: every kind opens, passes the census and has values of sane size."""

from pathlib import Path

import numpy as np
import pytest

from whitedwarf.errors import UsageError
from whitedwarf.gguf.census import check_census
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.synth import QUANTS, Dialect, synthesise
from whitedwarf.gguf.synth_blocks import SYNTHETIC_TYPES, RandomBlocks, random_blocks
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.synth_vocabulary import byte_alphabet, tokenizer_metadata
from whitedwarf.gguf.types import GgmlType
from whitedwarf.gguf.verify import verify


def floats(gguf: GgufFile, name: str) -> np.ndarray:
    info = gguf.tensors[name]
    return decode(gguf.data(name), info.type, info.shape)


@pytest.mark.parametrize("quant", [*QUANTS, "q2-q4"])
@pytest.mark.parametrize("dialect", ["ds4", "llama.cpp"])
def test_a_tiny_model_opens_and_passes_the_census(tmp_path: Path, quant: str, dialect: Dialect) -> None:
    path = tmp_path / "tiny.gguf"
    synthesise(path, "tiny", quant=quant, dialect=dialect)
    with open_gguf(path) as gguf:
        hp = from_metadata(gguf.metadata, gguf.tensors)
        check_census(hp, gguf.tensors, path.name)
        assert hp.compress_ratios == (0, 0, 4, 128, 4, 128)
        for name, info in gguf.tensors.items():
            values = floats(gguf, name)
            assert np.isfinite(values).all(), name
            if info.type is not GgmlType.I32:
                assert np.abs(values).max() < 8, name


def test_every_byte_of_it_passes_verification(tmp_path: Path) -> None:
    for quant in QUANTS:
        synthesise(tmp_path / f"{quant}.gguf", "tiny", quant=quant)
        with open_gguf(tmp_path / f"{quant}.gguf") as gguf:
            assert verify(gguf) == []


def test_types_of_the_ds4_dialect_are_the_published_ones(tmp_path: Path) -> None:
    synthesise(tmp_path / "tiny.gguf", "tiny", quant="q2")
    with open_gguf(tmp_path / "tiny.gguf") as gguf:
        types = {name: info.type for name, info in gguf.tensors.items()}
    expected = {
        "token_embd.weight": GgmlType.F16,
        "output.weight": GgmlType.Q8_0,
        "output_norm.weight": GgmlType.F32,
        "output_hc_fn.weight": GgmlType.F16,
        "blk.2.hc_attn_fn.weight": GgmlType.F16,
        "blk.2.attn_q_a.weight": GgmlType.Q8_0,
        "blk.2.attn_compressor_ape.weight": GgmlType.F16,
        "blk.2.indexer.attn_q_b.weight": GgmlType.F16,
        "blk.2.ffn_gate_inp.weight": GgmlType.F16,
        "blk.2.ffn_gate_tid2eid.weight": GgmlType.I32,
        "blk.2.ffn_up_exps.weight": GgmlType.IQ2_XXS,
        "blk.2.ffn_down_exps.weight": GgmlType.Q2_K,
        "blk.2.ffn_down_shexp.weight": GgmlType.Q8_0,
        "blk.3.exp_probs_b.bias": GgmlType.F32,
    }
    assert {name: types[name] for name in expected} == expected
    assert "blk.2.exp_probs_b.bias" not in types


def test_types_of_the_llama_cpp_dialect_are_those_of_its_converter(tmp_path: Path) -> None:
    synthesise(tmp_path / "tiny.gguf", "tiny", quant="mxfp4", dialect="llama.cpp")
    with open_gguf(tmp_path / "tiny.gguf") as gguf:
        types = {name: info.type for name, info in gguf.tensors.items()}
    expected = {
        "token_embd.weight": GgmlType.BF16,
        "output.weight": GgmlType.BF16,
        "output_hc_fn.weight": GgmlType.F32,
        "blk.2.attn_q_a.weight": GgmlType.Q8_0,
        "blk.2.attn_compressor_kv.weight": GgmlType.BF16,
        "blk.2.attn_compressor_ape.weight": GgmlType.F32,
        "blk.2.indexer.attn_q_b.weight": GgmlType.Q8_0,
        "blk.2.indexer.proj.weight": GgmlType.BF16,
        "blk.2.ffn_gate_inp.weight": GgmlType.BF16,
        "blk.2.ffn_up_exps.weight": GgmlType.MXFP4,
    }
    assert {name: types[name] for name in expected} == expected


def test_a_mixed_file_switches_its_last_layers(tmp_path: Path) -> None:
    synthesise(tmp_path / "tiny.gguf", "tiny", quant="q2-q4")
    with open_gguf(tmp_path / "tiny.gguf") as gguf:
        gates = [gguf.tensors[f"blk.{layer}.ffn_gate_exps.weight"].type for layer in range(6)]
    assert gates == [GgmlType.IQ2_XXS] * 5 + [GgmlType.Q4_K]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synthesise(tmp_path / f"{name}.gguf", "tiny", layers=3, seed=seed)
    contents = [(tmp_path / f"{name}.gguf").read_bytes() for name in "abc"]
    assert contents[0] == contents[1] != contents[2]


def test_shards_hold_the_same_model(tmp_path: Path) -> None:
    synthesise(tmp_path / "whole.gguf", "tiny")
    synthesise(tmp_path / "cut.gguf", "tiny", split=3)
    shard = tmp_path / "cut-00002-of-00003.gguf"
    with open_gguf(tmp_path / "whole.gguf") as whole, open_gguf(shard) as cut:
        assert len(cut.paths) == 3
        assert set(cut.tensors) == set(whole.tensors)
        assert all(np.array_equal(cut.data(name), whole.data(name)) for name in whole.tensors)


def test_progress_reaches_the_size_of_the_data(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    synthesise(tmp_path / "tiny.gguf", "tiny", layers=1, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert 0.5 < seen[-1][0] / seen[-1][1] <= 1


def test_every_token_of_a_hash_layer_has_distinct_experts(tmp_path: Path) -> None:
    hp = synthesise(tmp_path / "tiny.gguf", "tiny", layers=1)
    with open_gguf(tmp_path / "tiny.gguf") as gguf:
        table = floats(gguf, "blk.0.ffn_gate_tid2eid.weight")
    assert table.shape == (hp.vocab_size, hp.num_experts_used)
    assert all(len(set(row)) == hp.num_experts_used for row in table.tolist())
    assert set(table.reshape(-1).tolist()) == set(range(hp.num_experts))


def test_experts_differ_from_one_another(tmp_path: Path) -> None:
    synthesise(tmp_path / "tiny.gguf", "tiny", layers=1)
    with open_gguf(tmp_path / "tiny.gguf") as gguf:
        experts = floats(gguf, "blk.0.ffn_gate_exps.weight").reshape(8, -1)
    assert len({row.tobytes() for row in experts}) == 8


@pytest.mark.parametrize("type_", SYNTHETIC_TYPES)
@pytest.mark.parametrize("std", [1 / 64, 1.0])
def test_blocks_have_the_wanted_deviation(type_: GgmlType, std: float) -> None:
    num_blocks = 65536 // type_.block_size
    blocks = random_blocks(type_, num_blocks, std, np.random.default_rng(0))
    values = decode(blocks.reshape(-1), type_, (num_blocks, type_.block_size))
    assert values.std() == pytest.approx(std, rel=0.05)
    assert abs(values.mean()) < 0.05 * std


def test_pieces_are_as_long_as_asked_however_small_the_slab() -> None:
    blocks = RandomBlocks(0, slab_bytes=1000)
    pieces = list(blocks.pieces(GgmlType.Q2_K, 256 * 50, 1.0, np.random.default_rng(0)))
    assert sum(piece.size for piece in pieces) == 50 * GgmlType.Q2_K.block_bytes


def test_a_type_without_a_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match="no random blocks for Q6_K"):
        random_blocks(GgmlType.Q6_K, 1, 1.0, np.random.default_rng(0))


def test_flash_and_pro_keep_the_start_of_their_schedules() -> None:
    assert model_shape("flash", layers=4).compress_ratios == (0, 0, 4, 128)
    assert model_shape("flash", layers=6).compress_ratios == (0, 0, 4, 128, 4, 128)
    assert model_shape("pro", layers=4).compress_ratios == (128, 128, 4, 128)
    assert model_shape("flash", layers=2).num_hash_layers == 2
    assert model_shape("flash", experts=4).num_experts_used == 4


@pytest.mark.parametrize(
    "wrong", [{"shape": "huge"}, {"quant": "q3"}, {"quant": "q2-q9"}, {"layers": 0}, {"experts": 0}, {"dialect": "x"}]
)
def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="expected"):
        synthesise(tmp_path / "tiny.gguf", **wrong)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_vocabulary_holds_all_bytes_the_control_tokens_and_the_products_of_its_merges() -> None:
    metadata = {key: value for key, (_, value) in tokenizer_metadata(512).items()}
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    assert len(tokens) == len(set(tokens)) == 512
    assert set(byte_alphabet()) <= set(tokens)
    assert len(set(byte_alphabet())) == 256
    for merge in merges:
        left, right = str(merge).split(" ")
        assert {left, right, left + right} <= set(tokens)
    for special in ("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"):
        assert special in tokens
    assert tokens[:2] == ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"]
    with pytest.raises(UsageError, match="at least"):
        tokenizer_metadata(200)
