"""Random conversations: our encoders and the official library must agree to the last code point and token id."""

from pathlib import Path
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import HealthCheck, given, settings

from fakes.conversation_dumps import conversations, respellings
from fakes.recipe_conversations import (
    IMAGE,
    conversation_from_dump,
    dumped_image,
    oracle_from_dump,
    spellings_from_dump,
)
from fakes.tokenizer_json import v41_tokenizer_json
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.special import PUBLISHED, Spellings
from whitedwarf.prompt.tokenizer import Tokenizer

ENCODINGS = {ModelVersion.V4: recipe.DeepseekV4Encoding, ModelVersion.V41: recipe.DeepseekV41Encoding}
OFTEN = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(OFTEN, max_examples=60)


def assert_same_text(dump: dict[str, Any], changed: dict[str, str], spellings: Spellings = PUBLISHED) -> None:
    image_token = changed.get("image", IMAGE)
    ours = conversation_from_dump(dump, image_token)
    for version, encoding in ENCODINGS.items():
        official = encoding().with_special_tokens(recipe.SpecialTokens(**changed))
        expected = official.render_conversation(oracle_from_dump(dump, image_token))
        prompt = encode(ours, version, spellings)
        rendered = prompt.rendered(spellings)
        assert rendered.text == expected.prompt
        assert list(rendered.special_ranges) == expected.special_ranges
        assert [dumped_image(source) for source in prompt.images] == [
            [source.kind, source.detail, source.path] for source in expected.image_sources
        ]


@QUICK
@given(conversations)
def test_a_few_random_conversations_are_rendered_like_the_official_ones(dump: dict[str, Any]) -> None:
    assert_same_text(dump, {})


@pytest.mark.slow
@OFTEN
@given(conversations, respellings)
def test_respelt_tokens_are_rendered_like_the_official_ones(dump: dict[str, Any], changed: dict[str, str]) -> None:
    assert_same_text(dump, changed, spellings_from_dump(changed))


@pytest.fixture(scope="session")
def official_encodings(deepseek_json: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[ModelVersion, Any]:
    v41_json = tmp_path_factory.mktemp("v41") / "tokenizer.json"
    v41_json.write_text(v41_tokenizer_json(deepseek_json), encoding="utf-8")
    paths = {ModelVersion.V4: deepseek_json, ModelVersion.V41: v41_json}
    return {
        version: ENCODINGS[version]().with_tokenizer(recipe.Tokenizer.from_file(str(path)))
        for version, path in paths.items()
    }


@pytest.mark.slow
@OFTEN
@given(conversations)
def test_random_conversations_have_the_official_text_and_ids(
    official_encodings: dict[ModelVersion, Any],
    official_tokenizers: dict[ModelVersion, Tokenizer],
    dump: dict[str, Any],
) -> None:
    assert_same_text(dump, {})
    for version, official in official_encodings.items():
        prompt = encode(conversation_from_dump(dump), version)
        ids = official_tokenizers[version].encode_segments(prompt.segments)
        assert ids == official.encode(oracle_from_dump(dump))
