import json
from pathlib import Path
from typing import Any

import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.prompt.tokenizer_json import PublishedTokenizers


@pytest.fixture(scope="module")
def published(deepseek_json: Path) -> PublishedTokenizers:
    return PublishedTokenizers(deepseek_json)


@pytest.mark.parametrize("version", ModelVersion)
def test_both_versions_have_the_official_vocabulary(
    version: ModelVersion, published: PublishedTokenizers, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    assert published.of(version).vocabulary == official_tokenizers[version].vocabulary


def test_the_versions_differ_in_three_names(published: PublishedTokenizers) -> None:
    v4, v41 = (published.of(version).vocabulary.tokens for version in (ModelVersion.V4, ModelVersion.V41))
    assert [token_id for token_id, pair in enumerate(zip(v4, v41, strict=True)) if pair[0] != pair[1]] == [
        128_799,
        129_264,
        129_279,
    ]
    assert published.of(ModelVersion.V41).special_id(SpecialToken.SYSTEM) == 128_799
    assert published.of(ModelVersion.V41).special_id(SpecialToken.IMAGE) == 129_264


def test_a_tokenizer_is_made_once(published: PublishedTokenizers) -> None:
    assert published.of(ModelVersion.V4) is published.of(ModelVersion.V4)


def test_merges_may_be_pairs(nano_json: Path, nano: Tokenizer) -> None:
    assert isinstance(json.loads(nano_json.read_text())["model"]["merges"][0], list)
    assert PublishedTokenizers(nano_json).of(ModelVersion.V4).vocabulary == nano.vocabulary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "expected 'model' to be a dict, found None"),
        ({"model": {"vocab": [], "merges": []}}, "expected 'vocab' to be a dict, found []"),
        ({"model": {"vocab": {"a": "b"}, "merges": []}}, "expected ids from 0 to 1048575, found 'b'"),
        ({"model": {"vocab": {"a": 10**12}, "merges": []}}, "expected ids from 0 to 1048575, found 1000000000000"),
        ({"model": {"vocab": {"a": True}, "merges": []}}, "expected ids from 0 to 1048575, found True"),
        ({"model": {"vocab": {}, "merges": [5]}}, "expected merges of two tokens, found 5"),
        ({"model": {"vocab": {}, "merges": []}, "added_tokens": []}, "tokenizer.ggml.tokens is empty"),
        ({"model": {"vocab": {"a": 0}, "merges": []}, "added_tokens": []}, "has no token for byte 0x"),
        ({"added_tokens": {}}, "expected 'added_tokens' to be a list"),
        ({"added_tokens": [5]}, "expected added tokens with an id and a content, found 5"),
        ({"added_tokens": [{"content": "a"}]}, "expected ids from 0 to 1048575, found None"),
        ({"pre_tokenizer": {"pretokenizers": [{"pattern": {"Regex": "a"}}]}}, "expected DeepSeek's pre-tokenizer"),
        ({"pre_tokenizer": None}, "expected 'pre_tokenizer' to be a dict"),
    ],
)
def test_another_tokenizer_is_refused(change: dict[str, Any], message: str, nano_json: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(nano_json.read_text()) | change))
    with pytest.raises(FileFormatError) as refused:
        PublishedTokenizers(path).of(ModelVersion.V4)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\udcff", "[]"])
def test_what_is_no_json_object_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(FileFormatError, match=r"give DeepSeek V4's tokenizer\.json"):
        PublishedTokenizers(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot read"):
        PublishedTokenizers(tmp_path / "nothing.json")
