"""Random Responses requests: the official library and we must convert alike, or refuse with the same words."""

import json
import os
import re
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import HealthCheck, assume, given, settings

from fakes.damage import maybe_damaged, places
from fakes.official_requests import official_outcome, options_of
from fakes.responses_requests import conversion_options, responses_requests
from protocol.vectors import converted, policy_of
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.openai_responses.convert import convert

EXAMPLES = int(os.environ.get("WHITEDWARF_EXAMPLES", "2000"))
OFTEN = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(OFTEN, max_examples=60)
OPEN_TEXTS = [
    re.compile(r"(No tool output found for tool call ).*"),  # it names any one of several
    re.compile(
        r"(Invalid json schema: |Invalid schema for function '[^']*': ).*"
    ),  # see tests/protocol/test_json_schema.py
]


def assert_same_outcome(body: Any, options: dict[str, Any]) -> None:
    # Deep in an item serde takes a kind's number for its name; nobody sends that, and we do not take it.
    assume(not any(key == "type" and type(parent[key]) is int for parent, key in places(body)))
    official = official_outcome(recipe.ResponsesRequest, body, options)
    ours = converted({"request": body, "options": options}, convert)
    assert without_open_texts(ours) == without_open_texts(official)
    if official["ok"]:
        assert_same_reply(body, options)


def without_open_texts(outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome without what is not this test's: which call is named, and what is wrong with a schema."""
    body = outcome.get("body", "")
    for text in OPEN_TEXTS:
        body = text.sub(r"\1", body)
    return outcome if "body" not in outcome else outcome | {"body": body}


def assert_same_reply(body: Any, options: dict[str, Any]) -> None:
    reply = convert(body, policy_of(options)).reply
    request = recipe.ResponsesRequest(body)
    origins = request.namespace_tool_map(options_of(options))
    assert dict(reply.namespaces) == origins
    assert dict(reply.echo) == official_echo(request, options, list(reply.echo))


def official_echo(request: recipe.ResponsesRequest, options: dict[str, Any], names: list[str]) -> dict[str, Json]:
    echo = request.echo()
    official = request.convert(options_of(options))
    generator = recipe.ResponsesRequest.chunk_generator(official, "resp-1", "m").with_echo(echo)
    first = recipe.StreamProcessor(generator, official.parsing_options).push(recipe.InferenceChunk.ready())[0]
    response = json.loads(first.to_json())["response"]
    return {name: response[name] for name in names}


@QUICK
@given(maybe_damaged(responses_requests), conversion_options)
def test_a_few_random_requests_are_converted_as_the_official_library_does(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)


@pytest.mark.slow
@OFTEN
@given(maybe_damaged(responses_requests), conversion_options)
def test_random_requests_are_converted_as_the_official_library_does(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)
