"""Conversion against the oracle's own files, and of every form a release comes in."""

import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.checkpoints import TINY, Checkpoint, Stored, copy_tiny, floats, random_checkpoint, tiny_checkpoint
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.census import check_census, check_mtp_census
from whitedwarf.gguf.codecs import decode, encode
from whitedwarf.gguf.convert import ConvertOptions, ConvertProgress, convert
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.types import GgmlType

WIDE = {"hidden_size": 256, "moe_intermediate_size": 256, "num_hidden_layers": 2, "compress_ratios": [0, 4]}
WIDE |= {"num_hash_layers": 1}


def converted(checkpoint: Checkpoint, tmp_path: Path, **options: Any) -> GgufFile:
    folder = checkpoint.write(tmp_path / "release")
    convert(folder, tmp_path / "out.gguf", ConvertOptions(**options))
    return open_gguf(tmp_path / "out.gguf")


def assert_same_tensors(ours: GgufFile, theirs: GgufFile) -> None:
    assert set(ours.tensors) == set(theirs.tensors)
    for name, tensor in theirs.tensors.items():
        assert (ours.tensors[name].type, ours.tensors[name].shape) == (tensor.type, tensor.shape), name
        np.testing.assert_array_equal(ours.data(name), theirs.data(name), err_msg=name)


def experts_as(type: GgmlType) -> Callable[[str, tuple[int, ...]], GgmlType | None]:
    return lambda name, shape: type if name.endswith("_exps.weight") else None


@pytest.fixture(scope="module")
def tiny_f32(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    path = tmp_path_factory.mktemp("oracle") / "tiny-f32.gguf"
    path.write_bytes(lzma.decompress((TINY / "tiny-f32.gguf.xz").read_bytes()))
    return open_gguf(path)


@pytest.mark.parametrize("form", ["src", "hf"])
def test_f32_output_is_the_oracles_file_bit_for_bit(form: str, tiny_f32: GgufFile, tmp_path: Path) -> None:
    assert_same_tensors(converted(tiny_checkpoint(form), tmp_path, outtype="f32"), tiny_f32)


def test_native_output_is_llama_cpps_file_in_types_and_bytes(tmp_path: Path) -> None:
    assert_same_tensors(converted(tiny_checkpoint(), tmp_path), open_gguf(TINY / "tiny-mxfp4.gguf"))


def test_metadata_has_every_key_of_llama_cpps_file_with_its_type_and_value(tmp_path: Path) -> None:
    ours, theirs = converted(tiny_checkpoint(), tmp_path), open_gguf(TINY / "tiny-mxfp4.gguf")
    theirs_alone = {"general.name", "general.size_label", "tokenizer.chat_template"}
    for key in theirs.metadata.keys() - theirs_alone:
        assert ours.value_types[key] is theirs.value_types[key], key
        np.testing.assert_array_equal(np.array(ours.metadata[key]), np.array(theirs.metadata[key]), err_msg=key)
    assert ours.metadata["deepseek4.vocab_size"] == 768
    assert "tokenizer.chat_template" not in ours.metadata


def test_plain_float_sources_keep_their_types(tmp_path: Path) -> None:
    model = converted(tiny_checkpoint("hf"), tmp_path)
    assert model.tensors["blk.0.ffn_gate_exps.weight"].type is GgmlType.BF16
    assert model.tensors["token_embd.weight"].type is GgmlType.BF16
    assert model.tensors["blk.0.attn_norm.weight"].type is GgmlType.F32
    assert model.tensors["blk.0.hc_attn_fn.weight"].type is GgmlType.F32


def test_f16_output_rounds_matrices_only(tiny_f32: GgufFile, tmp_path: Path) -> None:
    model = converted(tiny_checkpoint(), tmp_path, outtype="f16")
    for name, tensor in tiny_f32.tensors.items():
        exact = decode(tiny_f32.data(name), tensor.type, tensor.shape)
        ours = decode(model.data(name), model.tensors[name].type, model.tensors[name].shape)
        is_half = model.tensors[name].type is GgmlType.F16
        assert is_half == (len(tensor.shape) > 1 and "hc_" not in name and "_ape" not in name and "tid2eid" not in name)
        np.testing.assert_array_equal(ours, exact.astype(np.float16).astype(np.float32) if is_half else exact)


def test_the_output_passes_the_census_and_reads_back_as_the_config(tmp_path: Path) -> None:
    model = converted(tiny_checkpoint(), tmp_path)
    hp = from_metadata(model.metadata, model.tensors)
    check_census(hp, model.tensors, "out.gguf")
    assert (hp.num_layers, hp.hidden_size, hp.compress_ratios) == (6, 128, (0, 0, 4, 128, 4, 128))


@pytest.mark.parametrize(
    ("usual", "spelling"),
    [
        ("layers.", "model.layers."),
        (".attn.", ".self_attn."),
        (".ffn.", ".mlp."),
        (".scale", ".weight_scale_inv"),
        ("ffn.gate.bias", "ffn.gate.e_score_correction_bias"),
    ],
)
def test_other_spellings_of_names_give_the_same_file(
    usual: str, spelling: str, tiny_f32: GgufFile, tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint().renamed(usual, spelling)
    assert any(spelling in name for name in checkpoint.tensors)
    assert_same_tensors(converted(checkpoint, tmp_path, outtype="f32"), tiny_f32)


def test_shards_give_the_same_file_as_one(tiny_f32: GgufFile, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release", num_shards=3)
    convert(folder, tmp_path / "out.gguf", ConvertOptions(outtype="f32"))
    assert_same_tensors(open_gguf(tmp_path / "out.gguf"), tiny_f32)


def test_output_can_be_split(tiny_f32: GgufFile, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    report = convert(folder, tmp_path / "out.gguf", ConvertOptions(outtype="f32", num_shards=2))
    assert len(report.paths) == 2
    assert_same_tensors(open_gguf(report.paths[0]), tiny_f32)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_norms_may_be_stored_in_any_plain_float(dtype: str, tiny_f32: GgufFile, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    ones = np.linspace(0.5, 1.5, 129, dtype=np.float32)[:128].astype(np.float16).astype(np.float32)
    checkpoint.tensors["norm.weight"] = floats(np.round(ones * 64) / 64, dtype)
    model = converted(checkpoint, tmp_path)
    np.testing.assert_array_equal(model.data("output_norm.weight").view(np.float32), np.round(ones * 64) / 64)


def fp8_experts(checkpoint: Checkpoint) -> Checkpoint:
    """As in `-Base` checkpoints: the experts in FP8 with 128 x 128 scales too."""
    rng = np.random.default_rng(1)
    for name in [name for name in checkpoint.tensors if ".experts." in name and name.endswith(".weight")]:
        rows, half = checkpoint.tensors[name].shape
        codes = rng.integers(0, 256, (rows, half * 2), np.uint8)
        checkpoint.tensors[name] = Stored("F8_E4M3", codes.shape, codes.tobytes())
        checkpoint.tensors[name.replace(".weight", ".scale")] = Stored("F8_E8M0", (1, 1), b"\x78")
    return checkpoint


def test_fp8_experts_become_q8_0_and_not_a_number_codes_zero(tmp_path: Path) -> None:
    checkpoint = fp8_experts(tiny_checkpoint())
    model = converted(checkpoint, tmp_path)
    tensor = model.tensors["blk.1.ffn_down_exps.weight"]
    assert (tensor.type, tensor.shape) == (GgmlType.Q8_0, (6, 128, 64))
    exact = converted(checkpoint, tmp_path / "exact", outtype="f32")
    values = exact.data("blk.1.ffn_down_exps.weight").view(np.float32).reshape(6, 128, 64)
    codes = np.frombuffer(checkpoint.tensors["layers.1.ffn.experts.5.w2.weight"].data, np.uint8).reshape(128, 64)
    assert not values[5][(codes & 127) == 127].any()
    assert values[5].max() == 448 * 2.0 ** (0x78 - 127)
    np.testing.assert_array_equal(model.data("blk.1.ffn_down_exps.weight"), encode(values, GgmlType.Q8_0))


def test_fp8_scales_reach_their_own_blocks_also_where_the_edge_is_ragged(tmp_path: Path) -> None:
    checkpoint = random_checkpoint(hidden_size=160, moe_intermediate_size=64, q_lora_rank=320)
    codes = np.random.default_rng(0).integers(0, 255, (320, 160), np.uint8)
    scale = np.random.default_rng(1).integers(110, 130, (3, 2), np.uint8)
    checkpoint.tensors["layers.0.attn.wq_a.weight"] = Stored("F8_E4M3", codes.shape, codes.tobytes())
    checkpoint.tensors["layers.0.attn.wq_a.scale"] = Stored("F8_E8M0", scale.shape, scale.tobytes())
    ours = converted(checkpoint, tmp_path, outtype="f32").data("blk.0.attn_q_a.weight").view(np.float32)
    for row, column in [(0, 0), (127, 127), (128, 0), (0, 128), (255, 159), (256, 128), (319, 159)]:
        sign, exponent, mantissa = codes[row, column] >> 7, (codes[row, column] >> 3) & 15, codes[row, column] & 7
        magnitude = (8 + mantissa) / 8 * 2.0 ** (int(exponent) - 7) if exponent else mantissa / 8 * 2.0**-6
        expected = magnitude * 2.0 ** (int(scale[row // 128, column // 128]) - 127) * (-1 if sign else 1)
        assert ours.reshape(320, 160)[row, column] == (0 if codes[row, column] & 127 == 127 else expected)


def test_asked_types_are_used_and_none_leaves_the_default(tmp_path: Path) -> None:
    chosen = {"token_embd.weight": GgmlType.Q8_0, "output.weight": GgmlType.F32}
    checkpoint = random_checkpoint(**WIDE)
    model = converted(checkpoint, tmp_path, choose_type=lambda name, shape: chosen.get(name))
    assert model.tensors["token_embd.weight"].type is GgmlType.Q8_0
    assert model.tensors["output.weight"].type is GgmlType.F32
    assert model.tensors["blk.0.attn_q_a.weight"].type is GgmlType.BF16


@pytest.mark.parametrize("type", [GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS, GgmlType.MXFP4, GgmlType.Q8_0])
def test_experts_in_a_block_format_equal_the_encoder_expert_by_expert(type: GgmlType, tmp_path: Path) -> None:
    checkpoint = random_checkpoint(**WIDE, n_routed_experts=2, num_experts_per_tok=1)
    name = "blk.1.ffn_up_exps.weight"
    model = converted(checkpoint, tmp_path, choose_type=lambda tensor, _: type if tensor == name else None)
    for expert in range(2):
        stored = checkpoint.tensors[f"layers.1.ffn.experts.{expert}.w3.weight"]
        values = decode(np.frombuffer(stored.data, np.uint8), GgmlType.BF16, stored.shape)
        ours = model.data(name).reshape(2, -1)[expert]
        np.testing.assert_array_equal(ours, encode(values, type))


def test_a_type_that_cannot_hold_the_rows_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"blk.0.ffn_gate_exps.weight has rows of 128, but Q4_K needs multiples of 256"
    ):
        converted(tiny_checkpoint(), tmp_path, choose_type=experts_as(GgmlType.Q4_K))
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("output.weight", GgmlType.Q6_K),
        ("output_norm.weight", GgmlType.Q8_0),
        ("blk.0.ffn_gate_tid2eid.weight", GgmlType.F32),
        ("output.weight", GgmlType.I32),
    ],
)
def test_a_type_that_makes_no_sense_for_a_tensor_is_refused(name: str, type: GgmlType, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be written as {type.name}"):
        converted(random_checkpoint(**WIDE), tmp_path, choose_type=lambda tensor, _: type if tensor == name else None)


def test_the_mtp_block_goes_into_the_same_file(tmp_path: Path) -> None:
    checkpoint = random_checkpoint(with_mtp=True, num_nextn_predict_layers=1)
    model = converted(checkpoint, tmp_path)
    hp = from_metadata(model.metadata, model.tensors)
    check_census(hp, model.tensors, "out.gguf")
    check_mtp_census(hp, model.tensors, "out.gguf")
    assert sum(name.startswith("mtp.0.") for name in model.tensors) == 32
    assert hp.num_layers == 6


def test_copies_of_embedding_and_head_inside_mtp_are_dropped_and_reported(tmp_path: Path) -> None:
    checkpoint = random_checkpoint(with_mtp=True, num_nextn_predict_layers=1)
    checkpoint.tensors["mtp.0.embed.weight"] = checkpoint.tensors["embed.weight"]
    checkpoint.tensors["mtp.0.head.weight"] = checkpoint.tensors["head.weight"]
    report = convert(checkpoint.write(tmp_path / "release"), tmp_path / "out.gguf")
    assert report.notes == ("2 copies of the embedding or head inside mtp.* left out",)


def test_the_mtp_block_can_be_left_out(tmp_path: Path) -> None:
    folder = random_checkpoint(with_mtp=True).write(tmp_path / "release")
    report = convert(folder, tmp_path / "out.gguf", ConvertOptions(include_mtp=False))
    assert report.notes == ("47 tensors of the MTP block left out, as asked",)
    assert not any(name.startswith("mtp.") for name in open_gguf(tmp_path / "out.gguf").tensors)


def dspark(checkpoint: Checkpoint) -> Checkpoint:
    checkpoint.tensors["mtp.0.main_proj.weight"] = floats(np.zeros((4, 4), np.float32))
    checkpoint.tensors["mtp.2.markov_head.markov_w1.weight"] = floats(np.zeros((4, 4), np.float32))
    return checkpoint


def test_a_dspark_drafter_is_left_out_and_the_main_model_converted(tiny_f32: GgufFile, tmp_path: Path) -> None:
    folder = dspark(tiny_checkpoint()).write(tmp_path / "release")
    report = convert(folder, tmp_path / "out.gguf", ConvertOptions(outtype="f32"))
    assert report.notes == ("2 tensors of a DSpark drafter (mtp.*) left out: only classic MTP blocks are supported",)
    assert_same_tensors(open_gguf(tmp_path / "out.gguf"), tiny_f32)


@pytest.mark.parametrize(("bend", "found"), [(dspark, "a DSpark drafter"), (lambda checkpoint: checkpoint, "no mtp")])
def test_asking_for_mtp_where_there_is_none_is_refused(
    bend: Callable[[Checkpoint], Checkpoint], found: str, tmp_path: Path
) -> None:
    folder = bend(tiny_checkpoint()).write(tmp_path / "release")
    with pytest.raises(FileFormatError, match=f"expected a classic MTP block .* found {found}"):
        convert(folder, tmp_path / "out.gguf", ConvertOptions(include_mtp=True))


def test_router_biases_of_hash_layers_are_dropped_and_reported(tiny_f32: GgufFile, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors["layers.0.ffn.gate.bias"] = floats(np.zeros(6, np.float32), "F32")
    report = convert(checkpoint.write(tmp_path / "release"), tmp_path / "out.gguf", ConvertOptions(outtype="f32"))
    assert report.notes == ("1 router biases of hash-routed layers, which nothing reads, left out",)
    assert_same_tensors(open_gguf(tmp_path / "out.gguf"), tiny_f32)


def test_progress_only_grows_and_ends_near_the_size_of_the_file(tmp_path: Path) -> None:
    seen: list[ConvertProgress] = []
    report = convert(copy_tiny("src", tmp_path / "release"), tmp_path / "out.gguf", on_progress=seen.append)
    written = [progress.written_bytes for progress in seen]
    assert written == sorted(set(written))
    assert {progress.tensor for progress in seen} == set(open_gguf(tmp_path / "out.gguf").tensors)
    assert seen[-1].total_bytes == report.size_bytes == (tmp_path / "out.gguf").stat().st_size
    assert 0.95 * report.size_bytes < written[-1] <= report.size_bytes


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = copy_tiny("src", tmp_path / "release")
    convert(folder, tmp_path / "first.gguf")
    convert(folder, tmp_path / "second.gguf")
    assert (tmp_path / "first.gguf").read_bytes() == (tmp_path / "second.gguf").read_bytes()


def test_memory_stays_far_below_the_largest_tensor(tmp_path: Path) -> None:
    vocab_size = 1 << 16
    checkpoint = tiny_checkpoint()
    checkpoint.config |= {"vocab_size": vocab_size}
    for name in ("embed.weight", "head.weight"):
        checkpoint.tensors[name] = Stored("BF16", (vocab_size, 128), bytes(vocab_size * 256))
    for layer in range(3):
        table = Stored("I64", (vocab_size, 3), bytes(vocab_size * 24))
        checkpoint.tensors[f"layers.{layer}.ffn.gate.tid2eid"] = table
    folder = checkpoint.write(tmp_path / "release")
    largest_bytes = vocab_size * 128 * 4
    del checkpoint
    tracemalloc.start()
    try:
        convert(folder, tmp_path / "out.gguf", ConvertOptions(outtype="f32"))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < largest_bytes
