"""What is not a complete DeepSeek V4 release is refused before anything is written, with names."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fakes.checkpoints import Checkpoint, Stored, floats, random_checkpoint, tiny_checkpoint
from whitedwarf.errors import FileFormatError, NotDeepSeekV4Error, UsageError
from whitedwarf.gguf.convert import ConvertOptions, convert

Bend = Callable[[Checkpoint], None]


def refusal(checkpoint: Checkpoint, tmp_path: Path, num_shards: int = 0) -> str:
    """The message; and nothing may have been written."""
    folder = checkpoint.write(tmp_path / "release", num_shards)
    with pytest.raises(FileFormatError) as caught:
        convert(folder, tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    return str(caught.value)


def bent(bend: Bend) -> Checkpoint:
    checkpoint = tiny_checkpoint()
    bend(checkpoint)
    return checkpoint


def with_dtype(name: str, dtype: str, shape: tuple[int, ...], size_bytes: int) -> Bend:
    return lambda checkpoint: checkpoint.tensors.update({name: Stored(dtype, shape, bytes(size_bytes))})


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (lambda c: c.tensors.pop("layers.4.attn.attn_sink"), "layers.4.attn.attn_sink [4] is missing"),
        (
            lambda c: c.tensors.pop("layers.1.ffn.experts.5.w2.weight"),
            "layers.1.ffn.experts.5.w2.weight [128, 64] is missing",
        ),
        (lambda c: c.tensors.pop("layers.1.attn.wkv.scale"), "layers.1.attn.wkv.weight is F8_E4M3 and has no scale"),
        (
            lambda c: c.tensors.pop("layers.0.ffn.experts.0.w1.scale"),
            "layers.0.ffn.experts.0.w1.weight is I8 and has no scale",
        ),
        (
            with_dtype("norm.weight", "BF16", (127,), 254),
            "norm.weight has shape [127], expected [128]",
        ),
        (
            with_dtype("layers.0.attn.wkv.scale", "F8_E8M0", (2, 1), 2),
            "layers.0.attn.wkv.scale has shape [2, 1], expected [1, 1] for [128, 128]",
        ),
        (
            with_dtype("layers.0.ffn.experts.0.w1.scale", "F32", (64, 4), 1024),
            "layers.0.ffn.experts.0.w1.scale is F32, expected F8_E8M0",
        ),
        (
            with_dtype("norm.scale", "F8_E8M0", (1, 1), 1),
            "norm.weight is BF16 but has a scale, norm.scale",
        ),
        (
            with_dtype("norm.weight", "I64", (128,), 1024),
            "norm.weight holds integers, expected plain floats",
        ),
        (
            with_dtype("layers.0.ffn.gate.tid2eid", "F32", (768, 3), 9216),
            "layers.0.ffn.gate.tid2eid holds plain floats, expected integers",
        ),
        (
            with_dtype("layers.9.attn_norm.weight", "BF16", (128,), 256),
            "layers.9.attn_norm.weight is not a tensor of this model",
        ),
        (
            with_dtype("layers.0.ffn.experts.6.w1.weight", "BF16", (64, 128), 16384),
            "layers.0.ffn.experts.6.w1.weight is beyond the 6 experts of config.json",
        ),
        (
            with_dtype("layers.0.attn.rotary.inv_freq", "F32", (8,), 32),
            "layers.0.attn.rotary.inv_freq is not a tensor of a DeepSeek V4 release",
        ),
        (
            with_dtype("model.norm.weight", "BF16", (128,), 256),
            "norm.weight and model.norm.weight are the same tensor twice",
        ),
    ],
)
def test_a_checkpoint_with_a_wrong_tensor_is_refused_by_name(bend: Bend, message: str, tmp_path: Path) -> None:
    text = refusal(bent(bend), tmp_path)
    assert message in text
    assert "Expected DeepSeek's release folder, complete" in text


def test_experts_of_one_layer_must_be_of_one_type(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors["layers.0.ffn.experts.3.w1.weight"] = floats(np.zeros((64, 128), np.float32))
    del checkpoint.tensors["layers.0.ffn.experts.3.w1.scale"]
    assert "layers.0.ffn.experts.{expert}.w1.weight are not all of one type" in refusal(checkpoint, tmp_path)


def test_many_faults_are_counted_not_listed(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if ".experts." not in name}
    text = refusal(checkpoint, tmp_path)
    assert "; and 103 more." in text
    assert len(text) < 800


def test_an_mtp_block_with_a_missing_tensor_is_refused(tmp_path: Path) -> None:
    checkpoint = random_checkpoint(with_mtp=True)
    del checkpoint.tensors["mtp.0.e_proj.weight"]
    assert "mtp.0.e_proj.weight [128, 128] is missing" in refusal(checkpoint, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model_type", "deepseek_v3", "model_type: found 'deepseek_v3', expected 'deepseek_v4'"),
        ("num_key_value_heads", 8, "num_key_value_heads: found 8"),
        ("hidden_size", "128", "hidden_size"),
        ("compress_ratios", [0, 0, 4], "compress_ratios"),
    ],
)
def test_the_config_of_another_model_is_refused(key: str, value: object, words: str, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.config[key] = value
    folder = checkpoint.write(tmp_path / "release")
    with pytest.raises(NotDeepSeekV4Error) as caught:
        convert(folder, tmp_path / "out.gguf")
    assert words in str(caught.value)


def test_a_config_that_describes_another_size_is_refused(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.config["hidden_size"] = 256
    assert "embed.weight has shape [768, 128], expected [768, 256]" in refusal(checkpoint, tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_folder_without_a_needed_file_is_refused(name: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match=f"{name} is missing"):
        convert(folder, tmp_path / "out.gguf")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FileFormatError, match=r"expected model.safetensors.index.json or one .* found no safetensors"):
        convert(folder, tmp_path / "out.gguf")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": ' * 100_000])
def test_a_broken_config_is_refused(text: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    (folder / "config.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"config\.json: expected"):
        convert(folder, tmp_path / "out.gguf")


def test_a_scale_that_is_not_a_number_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    for name in ("layers.2.ffn.experts.0.w1.scale", "layers.5.attn.wkv.scale"):
        stored = checkpoint.tensors[name]
        bad = Checkpoint(checkpoint.config, dict(checkpoint.tensors), checkpoint.files)
        bad.tensors[name] = Stored(stored.dtype, stored.shape, b"\xff" + stored.data[1:])
        assert f"{name} holds a scale that is not a number" in refusal(bad, tmp_path)


@pytest.mark.parametrize("expert", [-1, 6, 1 << 40])
def test_a_token_table_with_impossible_experts_is_refused_and_leaves_no_file(expert: int, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    table = np.zeros((768, 3), np.int64)
    table[700, 1] = expert
    checkpoint.tensors["layers.1.ffn.gate.tid2eid"] = Stored("I64", table.shape, table.tobytes())
    assert "expected indices of 6 experts" in refusal(checkpoint, tmp_path)


def test_values_that_the_asked_type_cannot_hold_are_refused_by_name(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint("hf")
    checkpoint.tensors["head.weight"] = floats(np.full((768, 128), 1e6, np.float32))
    folder = checkpoint.write(tmp_path / "release")
    with pytest.raises(FileFormatError, match=r"head\.weight cannot be written as F16: .* use BF16 or F32"):
        convert(folder, tmp_path / "out.gguf", ConvertOptions(outtype="f16"))
    assert not (tmp_path / "out.gguf").exists()


def test_an_old_output_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    folder = bent(with_dtype("layers.5.attn.wkv.scale", "F8_E8M0", (1, 1), 1)).write(tmp_path / "release")
    (tmp_path / "out.gguf").write_bytes(b"old")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(json.dumps(json.loads(text) | {"model_type": "llama"}))
    with pytest.raises(NotDeepSeekV4Error):
        convert(folder, tmp_path / "out.gguf")
    assert (tmp_path / "out.gguf").read_bytes() == b"old"


def test_writing_over_a_shard_of_the_source_is_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    with pytest.raises(UsageError, match="is the file being read"):
        convert(folder, folder / "model.safetensors")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(FileFormatError, match=f"{name}.*expected a file"):
        convert(folder, tmp_path / "out.gguf")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_no_file_of_the_checkpoint_is_written_over(name: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    before = (folder / name).read_bytes()
    with pytest.raises(UsageError, match="is the file being read"):
        convert(folder, folder / name)
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize("template", [None, b"\xff"])
def test_a_chat_template_that_is_no_text_is_refused(template: bytes | None, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    if template is None:
        settings = json.loads(checkpoint.files["tokenizer_config.json"]) | {"chat_template": "\ud800"}
        checkpoint.files["tokenizer_config.json"] = json.dumps(settings).encode()
    else:
        checkpoint.files["chat_template.jinja"] = template
    folder = checkpoint.write(tmp_path / "release")
    with pytest.raises(FileFormatError, match="utf-8"):
        convert(folder, tmp_path / "out.gguf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]


def test_more_shards_than_tensors_is_a_wrong_argument(tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    with pytest.raises(UsageError, match="shards asked for"):
        convert(folder, tmp_path / "out.gguf", ConvertOptions(num_shards=90_000))
