"""Both encoders against prompts of the official library, down to the token ids."""

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from fakes.recipe_conversations import IMAGE, conversation_from_dump, dumped_image, spellings_from_dump
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.special import PUBLISHED
from whitedwarf.prompt.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "recipe"
DIRECT = [json.loads(line) for line in (GOLDEN / "conversation.jsonl").read_text(encoding="utf-8").splitlines()]
CONVERTED = [json.loads(line) for line in lzma.decompress((GOLDEN / "converted.jsonl.xz").read_bytes()).splitlines()]


def assert_ids(tokenizer: Tokenizer, prompt: Prompt, expected: dict[str, Any]) -> None:
    ids = tokenizer.encode_segments(prompt.segments)
    assert len(ids) == expected["n_tokens"]
    digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
    assert digest == expected["token_ids_sha256"]


@pytest.mark.parametrize("version", ModelVersion)
@pytest.mark.parametrize("case", DIRECT, ids=lambda case: case["id"])
def test_a_conversation_gives_the_official_prompt(
    case: dict[str, Any], version: ModelVersion, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    expected = case[version.value]
    changed = case.get("special_tokens", {})
    spellings = spellings_from_dump(changed) if changed else PUBLISHED
    conversation = conversation_from_dump(case["conversation"], changed.get("image", IMAGE))
    prompt = encode(conversation, version, spellings)
    rendered = prompt.rendered(spellings)
    assert rendered.text == expected["prompt"]
    assert [list(span) for span in rendered.special_ranges] == expected["special_ranges"]
    if not changed:
        assert_ids(official_tokenizers[version], prompt, expected)


@pytest.mark.parametrize("case", CONVERTED, ids=lambda case: case["id"])
def test_a_converted_request_gives_the_official_prompt(
    case: dict[str, Any], official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    version = ModelVersion(case["version"])
    prompt = encode(conversation_from_dump(case["conversation"]), version)
    rendered = prompt.rendered()
    assert rendered.text == case["prompt"]
    assert [list(span) for span in rendered.special_ranges] == case["special_ranges"]
    assert list(map(dumped_image, prompt.images)) == case.get("image_sources", [])
    assert_ids(official_tokenizers[version], prompt, case)
