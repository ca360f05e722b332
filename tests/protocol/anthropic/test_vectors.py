"""Every official Messages vector: the same conversion or error, and the same prompt, images, ids and answer length."""

import hashlib
import json
from typing import Any

import pytest

from fakes.recipe_conversations import dumped_image
from protocol.vectors import Vector, converted, expected, load, policy_of
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.anthropic.convert import convert
from whitedwarf.protocol.failures import RefusedRequest, openai_error
from whitedwarf.protocol.resolution import resolve_max_tokens

VECTORS = load("messages")
WHOLE_CONTEXT = 1_000_000
SPARE_TOKENS = 7


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_a_request_is_converted_as_the_official_library_does(vector: Vector) -> None:
    assert converted(vector, convert) == expected(vector)


def answer_length(result: Any, prompt_tokens: int, context_length: int) -> Any:
    """The tokens that the answer may have, or the error as the vectors have it."""
    conversation = result.conversation
    try:
        return resolve_max_tokens(
            result.inference.max_tokens,
            prompt_tokens,
            context_length,
            is_thinking=conversation.is_thinking,
            effort=conversation.reasoning_effort,
        )
    except RefusedRequest as error:
        return {"status": error.status, "body": json.dumps(openai_error(error), separators=(",", ":"))}


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if vector["expect"]["ok"]], ids=lambda vector: vector["id"]
)
def test_a_request_gives_the_official_prompt_and_length(
    vector: Vector, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    expect = vector["expect"]
    result = convert(vector["request"], policy_of(vector.get("options", {})))
    prompt = encode(result.conversation, result.version)
    rendered = prompt.rendered()
    assert rendered.text == expect["prompt"]
    assert [list(span) for span in rendered.special_ranges] == expect["special_ranges"]
    assert list(map(dumped_image, prompt.images)) == expect.get("image_sources", [])
    ids = official_tokenizers[result.version].encode_segments(prompt.segments)
    assert len(ids) == expect["n_tokens"]
    assert hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest() == expect["token_ids_sha256"]
    contexts = (WHOLE_CONTEXT, len(ids) + SPARE_TOKENS)
    assert [answer_length(result, len(ids), context) for context in contexts] == expect["resolve_max_tokens"]
