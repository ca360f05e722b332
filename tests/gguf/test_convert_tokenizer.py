"""Tokenizer files of a release as GGUF metadata."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes.checkpoints import TINY
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.convert_tokenizer import tokenizer_metadata

CONFIG = {"bos_token_id": 0, "eos_token_id": 1}


def write(folder: Path, tokenizer: dict[str, Any] | None = None, settings: dict[str, Any] | None = None) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(original() if tokenizer is None else tokenizer))
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def original() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((TINY / "src" / "tokenizer.json").read_text())
    return loaded


def read(folder: Path, vocab_size: int = 768, config: dict[str, Any] | None = None) -> dict[str, Any]:
    typed = tokenizer_metadata(folder, CONFIG if config is None else config, vocab_size)
    return {key.removeprefix("tokenizer."): value for key, (_, value) in typed.items()}


def test_ids_that_nobody_names_are_unused(tmp_path: Path) -> None:
    values = read(write(tmp_path), vocab_size=771)
    assert values["ggml.tokens"][767:] == ["｜DSML｜", "[PAD768]", "[PAD769]", "[PAD770]"]
    assert list(values["ggml.token_type"][765:]) == [4, 4, 4, 5, 5, 5]


def test_tokens_that_look_special_are_control_tokens_whatever_the_file_says(tmp_path: Path) -> None:
    values = read(write(tmp_path))
    kinds = dict(zip(values["ggml.tokens"], values["ggml.token_type"], strict=True))
    assert [kinds[text] for text in ("<｜begin▁of▁sentence｜>", "<｜User｜>", "<think>", "｜DSML｜", "he")] == [
        3,
        3,
        4,
        4,
        1,
    ]


def test_merges_may_be_pairs_or_strings(tmp_path: Path) -> None:
    tokenizer = original()
    as_strings = read(write(tmp_path, tokenizer))["ggml.merges"]
    tokenizer["model"]["merges"] = [merge.split(" ") for merge in tokenizer["model"]["merges"]]
    assert read(write(tmp_path, tokenizer))["ggml.merges"] == as_strings
    assert as_strings[0] == "Ġ t"


def test_special_ids_come_from_the_texts_first_and_the_config_second(tmp_path: Path) -> None:
    values = read(write(tmp_path, settings={"eos_token": "<｜▁pad▁｜>", "pad_token": {"content": "<think>"}}))
    assert [values[f"ggml.{name}_token_id"] for name in ("bos", "eos", "padding")] == [0, 2, 765]


def test_padding_may_be_absent_and_eos_a_list(tmp_path: Path) -> None:
    values = read(write(tmp_path), config={"bos_token_id": 0, "eos_token_id": [1, 5]})
    assert values["ggml.eos_token_id"] == 1
    assert "ggml.padding_token_id" not in values


@pytest.mark.parametrize("config", [{"bos_token_id": 0}, {"eos_token_id": 1, "bos_token_id": 768}, {}])
def test_missing_special_ids_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"expected a (bos|eos)_token in"):
        read(write(tmp_path), config=config)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ([{"name": "tool", "template": "x"}, {"name": "default", "template": "y"}], "y"),
        (None, None),
    ],
)
def test_the_checkpoints_own_chat_template_is_kept(template: object, expected: str | None, tmp_path: Path) -> None:
    settings = {} if template is None else {"chat_template": template}
    assert read(write(tmp_path, settings=settings)).get("chat_template") == expected


def test_a_separate_chat_template_file_wins(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("from file")
    assert read(write(tmp_path, settings={"chat_template": "inline"}))["chat_template"] == "from file"


def test_another_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    tokenizer = original()
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\p{N}"
    with pytest.raises(FileFormatError, match=r"expected DeepSeek V4's pre-tokenizer \(joyai-llm\)"):
        read(write(tmp_path, tokenizer))


@pytest.mark.parametrize("pre_tokenizer", [None, {"type": "ByteLevel"}, {"pretokenizers": [1, {"pattern": 2}]}])
def test_no_pre_tokenizer_is_refused(pre_tokenizer: object, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="expected DeepSeek V4's pre-tokenizer"):
        read(write(tmp_path, original() | {"pre_tokenizer": pre_tokenizer}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"type": "Unigram"}}, "expected a byte-level BPE model, found 'Unigram'"),
        ({"model": None}, "expected a byte-level BPE model, found none"),
        ({"added_tokens": {}}, "expected a vocabulary and a list of added tokens"),
        ({"added_tokens": [{"id": 768, "content": "x"}]}, "'x' has id 768, expected 0 to 767"),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, "'x' has id -1"),
        ({"added_tokens": [{"id": 5, "content": "x"}]}, "id 5 is both"),
        ({"added_tokens": [{"content": "x"}]}, "expected added tokens with a text and an id"),
        ({"added_tokens": ["x"]}, "expected added tokens with a text and an id"),
    ],
)
def test_a_broken_tokenizer_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=words):
        read(write(tmp_path, original() | change))


@pytest.mark.parametrize("merges", [None, [], ["abc"], [["a", "b", "c"]], [["a ", "b"]], [7], [[1, 2]]])
def test_merges_that_cannot_be_written_are_refused(merges: object, tmp_path: Path) -> None:
    tokenizer = original()
    tokenizer["model"]["merges"] = merges
    with pytest.raises(FileFormatError, match="merges"):
        read(write(tmp_path, tokenizer))


def test_types_are_the_ones_gguf_files_use(tmp_path: Path) -> None:
    typed = tokenizer_metadata(write(tmp_path), CONFIG, 768)
    assert np.asarray(typed["tokenizer.ggml.token_type"][1]).dtype == np.int32
    assert typed["tokenizer.ggml.model"][1] == "gpt2"
