"""Broken model files at the command line: exit code 1 and one clear line, whichever command meets them."""

import math
import os
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.rewritten import Added, rewritten
from whitedwarf.gguf.metadata import MetadataValue, TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.types import GgmlType, ValueType

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]
PROGRESS = ("reading ", "checking ")
NAN = struct.pack("<f", math.nan)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.gguf"
    synthesise(path, "tiny", layers=4, experts=4)
    return path


def complaint(err: str) -> str:
    """The one line on stderr beside progress and the description of what runs."""
    lines = [line for line in err.splitlines() if not line.startswith(PROGRESS)]
    lines = [line for line in lines if not line.startswith("whitedwarf: context ")]
    assert len(lines) == 1, err
    assert lines[0].startswith("whitedwarf: ")
    assert "Traceback" not in err
    return lines[0]


def refused(in_process: InProcess, path: Path, text: str, *commands: Sequence[str]) -> None:
    for words in commands or (["run", "-p", "hi", "-n", "2", "-m"], ["gguf", "verify"]):
        code, _, err = in_process([*words, str(path)])
        assert (code, text in complaint(err)) == (1, True), err


def key(name: str, type_: ValueType, value: MetadataValue) -> TypedMetadata:
    return {(name if "." in name else f"deepseek4.{name}"): (type_, value)}


def real(name: str, value: float) -> TypedMetadata:
    return key(name, ValueType.FLOAT32, value)


def whole(name: str, value: int) -> TypedMetadata:
    return key(name, ValueType.UINT32, value)


def array(name: str, value: Any) -> TypedMetadata:
    return key(name, ValueType.ARRAY, np.array(value, np.int32) if type(value[0]) is int else value)


PREFIX = "deepseek4."
TOKENS, MERGES, TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"
NESTED = [np.array([1], np.int32)] * 512
WRONG_METADATA: dict[str, tuple[TypedMetadata, str]] = {
    "another architecture": (key("general.architecture", ValueType.STRING, "llama"), "found 'llama'"),
    "architecture as an array": (array("general.architecture", [1, 2]), "general.architecture"),
    "architecture that steers the terminal": (
        key("general.architecture", ValueType.STRING, "\x1b[31m\n"),
        "found '\\x1b[31m\\n'",
    ),
    "epsilon NaN": (real(PREFIX + "attention.layer_norm_rms_epsilon", math.nan), "found nan"),
    "epsilon infinite": (real(PREFIX + "hyper_connection.epsilon", math.inf), "found inf"),
    "epsilon 0": (real(PREFIX + "hyper_connection.epsilon", 0.0), "found 0.0"),
    "rope base negative": (real(PREFIX + "rope.freq_base", -1.0), "found -1.0"),
    "rope factor huge": (real(PREFIX + "rope.scaling.factor", 3e38), "rope.scaling.factor"),
    "scaling type as an array": (array(PREFIX + "rope.scaling.type", [1, 2]), "rope.scaling.type"),
    "weights scale NaN": (real("expert_weights_scale", math.nan), "expert_weights_scale"),
    "no layers": (whole("block_count", 0), "found 0"),
    "too many layers": (whole("block_count", 2**32 - 1), "found 4294967295"),
    "negative width": (key("embedding_length", ValueType.INT32, -1), "found -1"),
    "width as text": (key("embedding_length", ValueType.STRING, "256"), "found '256'"),
    "heads that do not fit the groups": (whole(PREFIX + "attention.head_count", 5), "a divisor of 5 heads"),
    "heads that do not fit the tensors": (whole(PREFIX + "attention.head_count", 8), "has shape"),
    "value length other than the key's": (whole(PREFIX + "attention.key_length", 126), "found 128, expected 126"),
    "odd rope": (whole(PREFIX + "rope.dimension_count", 63), "an even number"),
    "rope wider than the head": (whole(PREFIX + "rope.dimension_count", 256), "at most the head's 128"),
    "more experts used than there are": (whole("expert_used_count", 5), "at most the 4 experts"),
    "vocabulary size other than the embedding's": (whole("vocab_size", 300), "token_embd.weight has shape"),
    "ratios too few": (array(PREFIX + "attention.compress_ratios", [0, 0, 4]), "at least 4 entries"),
    "ratio 5": (array(PREFIX + "attention.compress_ratios", [0, 0, 5, 128]), "one of 0, 4, 128"),
    "ratios nested": (array(PREFIX + "attention.compress_ratios", NESTED), "compress_ratios"),
    "clamp nested": (array("swiglu_clamp_exp", NESTED), "swiglu_clamp_exp"),
    "key heads nested": (array(PREFIX + "attention.head_count_kv", NESTED), "head_count_kv"),
    "tokenizer model as an array": (array("tokenizer.ggml.model", [1, 2]), "tokenizer.ggml.model"),
    "another tokenizer": (key("tokenizer.ggml.model", ValueType.STRING, "llama"), "is 'llama'"),
    "pre-tokenizer as an array": (array("tokenizer.ggml.pre", [1, 2]), "tokenizer.ggml.pre"),
    "token types nested": (array(TYPES, NESTED), "an array of integers"),
    "token types NaN": (key(TYPES, ValueType.ARRAY, np.full(512, math.nan, np.float32)), "an array of integers"),
    "token types too few": (array(TYPES, [1] * 500), "has 500 entries"),
    "one token for all": (array(TOKENS, ["a"] * 512), "expected every token once"),
    "tokens as numbers": (array(TOKENS, [1, 2, 3]), "an array of strings"),
    "merge of unknown tokens": (array(MERGES, ["foo bar"]), "'foo' is no text token"),
    "merge without a space": (array(MERGES, ["foobar"]), "expected two tokens"),
}


@pytest.mark.parametrize("name", WRONG_METADATA)
def test_wrong_metadata_is_one_line_naming_the_key(
    in_process: InProcess, sound: Path, tmp_path: Path, name: str
) -> None:
    change, text = WRONG_METADATA[name]
    path = rewritten(sound, tmp_path / "m.gguf", metadata=lambda values: {**values, **change})
    refused(in_process, path, text)


def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(
    in_process: InProcess, sound: Path, tmp_path: Path
) -> None:
    def shorter(values: TypedMetadata) -> TypedMetadata:
        tokens, types = values[TOKENS][1], values[TYPES][1]
        assert isinstance(tokens, list)
        assert isinstance(types, np.ndarray)
        return {**values, TOKENS: (ValueType.ARRAY, tokens[:-50]), TYPES: (ValueType.ARRAY, types[:-50])}

    refused(in_process, rewritten(sound, tmp_path / "m.gguf", metadata=shorter), "has 462 tokens, expected 512")


def zeros(type_: GgmlType, *shape: int) -> Added:
    return type_, shape, np.zeros(type_.row_bytes(shape[-1]) * math.prod(shape[:-1]), np.uint8)


WRONG_TENSORS: dict[str, tuple[dict[str, Added], str]] = {
    "table as F32": ({"blk.0.ffn_gate_tid2eid.weight": zeros(GgmlType.F32, 512, 2)}, "has type F32, expected I32"),
    "matrix as I32": ({"blk.0.attn_kv.weight": zeros(GgmlType.I32, 128, 256)}, "has type I32"),
    "vector quantised": ({"blk.0.attn_norm.weight": zeros(GgmlType.Q8_0, 256)}, "has type Q8_0"),
    "matrix transposed": ({"blk.0.attn_q_a.weight": zeros(GgmlType.F32, 256, 128)}, "has shape [256, 128]"),
    "matrix flat": ({"blk.0.attn_kv.weight": zeros(GgmlType.F32, 128 * 256)}, "has shape [32768]"),
    "stranger": ({"blk.0.bogus\n\x1b[1m.weight": zeros(GgmlType.F32, 4)}, "bogus\\n\\x1b[1m.weight is not"),
    "layer too many": ({"blk.7.attn_norm.weight": zeros(GgmlType.F32, 256)}, "blk.7.attn_norm.weight"),
    "experts that do not exist": (
        {"blk.1.ffn_gate_tid2eid.weight": (GgmlType.I32, (512, 2), np.full(1024, 4, np.int32).view(np.uint8))},
        "names expert 4",
    ),
    "experts below 0": (
        {"blk.1.ffn_gate_tid2eid.weight": (GgmlType.I32, (512, 2), np.full(4096, 255, np.uint8))},
        "names expert -1",
    ),
}


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_wrong_tensors_are_one_line_naming_them(in_process: InProcess, sound: Path, tmp_path: Path, name: str) -> None:
    added, text = WRONG_TENSORS[name]
    path = rewritten(sound, tmp_path / "m.gguf", added=added)
    code, _, err = in_process(["run", "-p", "hi", "-n", "2", "-m", str(path)])
    assert (code, text in complaint(err)) == (1, True), err
    assert in_process(["gguf", "verify", str(path)])[0] == 1


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.2.indexer.proj.weight", "blk.3.attn_compressor_ape.weight"])
def test_a_missing_tensor_is_named(in_process: InProcess, sound: Path, tmp_path: Path, name: str) -> None:
    path = rewritten(sound, tmp_path / "m.gguf", rename=lambda each: None if each == name else each)
    refused(in_process, path, name)


@pytest.mark.parametrize("name", ["blk.0.attn_norm.weight", "blk.2.attn_sinks.weight", "output_norm.weight"])
def test_weights_that_are_no_numbers_end_in_one_line(
    in_process: InProcess, sound: Path, tmp_path: Path, name: str
) -> None:
    with open_gguf(sound) as gguf:
        info = gguf.tensors[name]
    bad: Added = info.type, info.shape, np.resize(np.frombuffer(NAN, np.uint8), info.size_bytes)
    path = rewritten(sound, tmp_path / "m.gguf", added={name: bad})
    refused(in_process, path, "finite logit", ["run", "-p", "hi", "-n", "2", "-m"])
    code, out, err = in_process(["gguf", "verify", str(path)])
    assert (code, f"error: {name}" in out, "Traceback" in err) == (1, True, False)


def test_a_file_cut_anywhere_is_one_line_for_every_command(in_process: InProcess, sound: Path, tmp_path: Path) -> None:
    raw, path, ids = sound.read_bytes(), tmp_path / "cut.gguf", tmp_path / "ids.json"
    ids.write_text("[1, 2, 3]")
    logits = ["logits", "--ids-file", str(ids), "--out", str(tmp_path / "out.npy"), "-m"]
    for length in [0, 3, 4, 24, *random.Random(7).sample(range(64, len(raw) - 4096), 8)]:
        path.write_bytes(raw[:length])
        refused(
            in_process, path, "cut.gguf", ["run", "-p", "hi", "-m"], ["gguf", "inspect"], ["gguf", "verify"], logits
        )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cut.gguf", "ids.json"]


def test_shards_that_were_swapped_or_lost_are_refused(in_process: InProcess, tmp_path: Path) -> None:
    synthesise(tmp_path / "m.gguf", "tiny", layers=2, experts=4, split=3)
    first, second, third = sorted(tmp_path.glob("*.gguf"))
    second.rename(tmp_path / "aside")
    refused(in_process, first, "00002-of-00003")
    third.rename(second)
    (tmp_path / "aside").rename(third)
    refused(in_process, third, "split.no")


def test_what_is_no_file_is_one_line(in_process: InProcess, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    long = tmp_path / ("x" * 300)
    for path in (tmp_path / "pipe", tmp_path / "loop", long):
        refused(
            in_process, path, str(path), ["run", "-p", "hi", "-m"], ["gguf", "inspect"], ["tokens", "-p", "hi", "-m"]
        )
    for path in (tmp_path, tmp_path / "missing", Path("~no-such-user/m.gguf")):
        code, _, err = in_process(["run", "-p", "hi", "-m", str(path)])
        assert (code, str(path) in complaint(err)) == (2, True)
