"""Every official Chat request vector down to the prompt, the images, the ids and how long the answer may be."""

import hashlib
import json
from typing import Any

import pytest

from fakes.recipe_conversations import dumped_image
from protocol.vectors import Vector, load, policy_of
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.failures import RefusedRequest, openai_error
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.resolution import resolve_max_tokens

CONVERTED = [vector for vector in load("chat") if vector["expect"]["ok"]]
WHOLE_CONTEXT = 1_000_000
SPARE_TOKENS = 7


def convert_vector(vector: Vector) -> Converted[Any]:
    body = vector["request"] if "request" in vector else read_json(vector["request_raw"])
    return convert(body, policy_of(vector.get("options", {})))


def answer_length(converted: Converted[Any], prompt_tokens: int, context_length: int) -> Any:
    """The tokens that the answer may have, or the error as the vectors have it."""
    try:
        return resolve_max_tokens(
            converted.inference.max_tokens,
            prompt_tokens,
            context_length,
            is_thinking=converted.conversation.is_thinking,
            effort=converted.conversation.reasoning_effort,
        )
    except RefusedRequest as error:
        return {"status": error.status, "body": json.dumps(openai_error(error), separators=(",", ":"))}


@pytest.mark.parametrize("vector", CONVERTED, ids=lambda vector: vector["id"])
def test_a_request_gives_the_official_prompt_and_length(
    vector: Vector, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    expected = vector["expect"]
    converted = convert_vector(vector)
    prompt = encode(converted.conversation, converted.version)
    rendered = prompt.rendered()
    assert rendered.text == expected["prompt"]
    assert [list(span) for span in rendered.special_ranges] == expected["special_ranges"]
    assert list(map(dumped_image, prompt.images)) == expected.get("image_sources", [])
    ids = official_tokenizers[converted.version].encode_segments(prompt.segments)
    assert hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest() == expected["token_ids_sha256"]
    assert len(ids) == expected["n_tokens"]
    contexts = (WHOLE_CONTEXT, len(ids) + SPARE_TOKENS)
    assert [answer_length(converted, len(ids), context) for context in contexts] == expected["resolve_max_tokens"]
