"""Responses requests against the official library: every vector, down to the token ids."""

import hashlib
import json
from typing import Any

import pytest

from protocol.vectors import Vector, converted, expected, load, policy_of
from whitedwarf.cli.recipe_dump import dumped_image
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.failures import openai_error
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.resolution import resolve_max_tokens

VECTORS = load("responses")
GOOD = [vector for vector in VECTORS if vector["expect"]["ok"]]
ECHOED = ("instructions", "max_output_tokens", "temperature", "top_p", "top_logprobs", "user")


def named(vector: Vector) -> str:
    return str(vector["id"])


@pytest.mark.parametrize("vector", VECTORS, ids=named)
def test_a_request_becomes_what_the_official_library_makes_of_it(vector: Vector) -> None:
    assert converted(vector, convert) == expected(vector)


@pytest.mark.parametrize("vector", GOOD, ids=named)
def test_a_request_gives_the_official_prompt(
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


@pytest.mark.parametrize("vector", GOOD, ids=named)
def test_a_request_is_answered_with_the_official_echo_and_tool_names(vector: Vector) -> None:
    expect = vector["expect"]
    reply = convert(vector["request"], policy_of(vector.get("options", {}))).reply
    echo: dict[str, Any] = dict(reply.echo)
    for name in ("temperature", "top_p"):  # told in few digits, where the vector has what 32 bits make of them
        echo[name] = round_to_single(echo[name])
    assert [echo[name] for name in ECHOED] == expect["echo"]
    assert {name: list(origin) for name, origin in reply.namespaces.items()} == expect.get("namespace_tool_map", {})


@pytest.mark.parametrize("vector", GOOD, ids=named)
def test_an_answer_has_as_many_tokens_as_the_official_library_gives_it(vector: Vector) -> None:
    expect = vector["expect"]
    result = convert(vector["request"], policy_of(vector.get("options", {})))
    found = [tokens_of(result, expect["n_tokens"], context) for context in (1_000_000, expect["n_tokens"] + 7)]
    assert found == expect["resolve_max_tokens"]


def tokens_of(result: Any, prompt_tokens: int, context_length: int) -> int | dict[str, Any]:
    try:
        return resolve_max_tokens(
            result.inference.max_tokens,
            prompt_tokens,
            context_length,
            is_thinking=result.conversation.is_thinking,
            effort=result.conversation.reasoning_effort,
        )
    except RequestError as error:
        return {"status": error.status, "body": json.dumps(openai_error(error), separators=(",", ":"))}
