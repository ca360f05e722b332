"""Both encoders against prompts of the official library, down to the token ids."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fakes.recipe_conversations import IMAGE, conversation_from_dump, spellings_from_dump
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.special import PUBLISHED
from whitedwarf.prompt.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "recipe"
DIRECT = [json.loads(line) for line in (GOLDEN / "conversation.jsonl").read_text(encoding="utf-8").splitlines()]


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
