"""Census: a complete file passes, every single fault is named."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.census import check_census, check_mtp_census, expected_tensors, mtp_tensors
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.types import GgmlType

TINY = model_shape("tiny")


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor as a reader describes it."""

    shape: tuple[int, ...]
    type: GgmlType = GgmlType.F32


def complete(hp: Hyperparameters = TINY) -> dict[str, Held]:
    return {
        name: Held(want.shape, GgmlType.I32 if want.kind == "indices" else GgmlType.F32)
        for name, want in expected_tensors(hp).items()
    }


def test_a_complete_file_passes() -> None:
    check_census(TINY, complete(), "tiny.gguf")


def test_flash_has_1328_tensors_and_three_optional_biases() -> None:
    expected = expected_tensors(model_shape("flash"))
    assert sum(want.required for want in expected.values()) == 1328
    assert [name for name, want in expected.items() if not want.required] == [
        f"blk.{layer}.exp_probs_b.bias" for layer in range(3)
    ]


def test_pro_has_1894_tensors() -> None:
    assert sum(want.required for want in expected_tensors(model_shape("pro")).values()) == 1894


def test_the_mtp_block_has_32_tensors() -> None:
    assert len(mtp_tensors(model_shape("flash"))) == 32


def test_shapes_follow_the_published_table() -> None:
    expected = expected_tensors(model_shape("flash"))
    assert expected["blk.2.attn_compressor_ape.weight"].shape == (4, 1024)
    assert expected["blk.3.attn_compressor_ape.weight"].shape == (128, 512)
    assert expected["blk.2.indexer.attn_q_b.weight"].shape == (8192, 1024)
    assert expected["blk.9.ffn_down_exps.weight"].shape == (256, 4096, 2048)
    assert expected["blk.0.ffn_gate_tid2eid.weight"].shape == (129280, 6)
    assert expected["output_hc_fn.weight"].shape == (4, 16384)
    assert "blk.3.indexer.proj.weight" not in expected
    assert "blk.0.attn_compressor_kv.weight" not in expected


def test_biases_of_hash_layers_are_optional() -> None:
    tensors = complete()
    del tensors["blk.0.exp_probs_b.bias"]
    check_census(TINY, tensors, "tiny.gguf")


@pytest.mark.parametrize("name", ["blk.4.exp_probs_b.bias", "output.weight", "blk.2.indexer.proj.weight"])
def test_a_missing_tensor_is_named_with_its_shape(name: str) -> None:
    tensors = complete()
    shape = list(tensors.pop(name).shape)
    with pytest.raises(FileFormatError) as caught:
        check_census(TINY, tensors, "tiny.gguf")
    assert f"tiny.gguf: {name} {shape} is missing" in str(caught.value)


def test_a_wrong_shape_is_named_with_both_shapes() -> None:
    tensors = complete() | {"output_norm.weight": Held((255,))}
    with pytest.raises(FileFormatError, match=r"output_norm\.weight has shape \[255\], expected \[256\]"):
        check_census(TINY, tensors, "tiny.gguf")


@pytest.mark.parametrize(
    ("name", "type_", "expected"),
    [
        ("blk.0.ffn_gate_tid2eid.weight", GgmlType.F32, "I32"),
        ("output_norm.weight", GgmlType.Q8_0, "F32, F16 or BF16"),
        ("output.weight", GgmlType.I32, "float or quantised"),
    ],
)
def test_a_wrong_type_is_named(name: str, type_: GgmlType, expected: str) -> None:
    tensors = complete()
    tensors[name] = replace(tensors[name], type=type_)
    with pytest.raises(FileFormatError, match=expected):
        check_census(TINY, tensors, "tiny.gguf")


@pytest.mark.parametrize("type_", [t for t in GgmlType if t is not GgmlType.I32])
def test_a_matrix_may_have_any_type_we_decode(type_: GgmlType) -> None:
    tensors = complete()
    tensors["output.weight"] = replace(tensors["output.weight"], type=type_)
    check_census(TINY, tensors, "tiny.gguf")


def test_an_unknown_tensor_is_refused() -> None:
    with pytest.raises(FileFormatError, match=r"blk\.0\.attn_q_c\.weight is not a tensor of this model"):
        check_census(TINY, complete() | {"blk.0.attn_q_c.weight": Held((1,))}, "tiny.gguf")
    with pytest.raises(FileFormatError, match=r"blk\.6\.attn_norm\.weight is not"):
        check_census(TINY, complete() | {"blk.6.attn_norm.weight": Held((256,))}, "tiny.gguf")


def test_vision_biases_and_draft_blocks_may_come_along() -> None:
    extra = {
        "blk.3.exp_probs_b_vl.bias": Held((8,)),
        "mtp.0.e_proj.weight": Held((256, 256)),
        "blk.6.nextn.eh_proj.weight": Held((256, 512)),
        "blk.6.attn_norm.weight": Held((256,)),
    }
    check_census(replace(TINY, num_nextn_layers=1), complete() | extra, "tiny.gguf")


def test_many_faults_are_counted_instead_of_listed() -> None:
    with pytest.raises(FileFormatError, match=r"; and \d+ more\. The file is incomplete"):
        check_census(TINY, {}, "tiny.gguf")


def test_an_mtp_support_file_is_not_a_model() -> None:
    block = {name: Held(want.shape) for name, want in mtp_tensors(TINY).items()}
    check_mtp_census(TINY, block, "mtp.gguf")
    with pytest.raises(FileFormatError, match=r"mtp\.gguf holds only the MTP draft block"):
        check_census(TINY, block, "mtp.gguf")
    with pytest.raises(FileFormatError, match="holds only the MTP draft block"):
        check_census(replace(TINY, num_nextn_layers=1), {"blk.6.nextn.eh_proj.weight": Held((256, 512))}, "mtp.gguf")


def test_the_bias_of_an_mtp_block_is_required() -> None:
    block = {name: Held(want.shape) for name, want in mtp_tensors(TINY).items()}
    del block["mtp.0.exp_probs_b.bias"]
    with pytest.raises(FileFormatError, match=r"mtp\.0\.exp_probs_b\.bias \[8\] is missing"):
        check_mtp_census(TINY, block, "mtp.gguf")


SHARED = Path(__file__).parents[3] / "shared"
REAL_FILES = ("nano/nano-f16.gguf", "oracle/tinyA/tiny-mxfp4.gguf")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="needs the workshop's ../shared folder")
@pytest.mark.parametrize("name", REAL_FILES)
def test_files_of_other_makers_pass(name: str) -> None:
    with open_gguf(SHARED / name) as gguf:
        hp = from_metadata(gguf.metadata, gguf.tensors)
        check_census(hp, gguf.tensors, name)
        assert hp.compress_ratios == (0, 0, 4, 128, 4, 128)


def test_a_dspark_drafter_is_not_taken_for_an_mtp_block() -> None:
    with pytest.raises(FileFormatError, match="DSpark"):
        check_mtp_census(TINY, {"mtp.0.main_proj.weight": Held((256, 256))}, "dspark.gguf")
