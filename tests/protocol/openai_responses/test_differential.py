"""Random Responses requests: the official library and we must convert alike, or refuse with the same words."""

import json
import os
import re
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import HealthCheck, given, settings

from fakes.damage import damaged, maybe_damaged
from fakes.official_requests import official_outcome, official_prompt, options_of
from fakes.responses_requests import conversion_options, responses_requests
from protocol.vectors import converted, policy_of
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import encode
from whitedwarf.protocol.openai_responses.convert import convert

EXAMPLES = int(os.environ.get("WHITEDWARF_EXAMPLES", "1000"))
OFTEN = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(OFTEN, max_examples=60)
ANY_CALL = re.compile(r"(No tool output found for tool call ).*")


def assert_same_outcome(body: Any, options: dict[str, Any]) -> None:
    official = official_outcome(recipe.ResponsesRequest, body, options)
    ours = converted({"request": body, "options": options}, convert)
    assert without_the_call(ours) == without_the_call(official)
    if official["ok"]:
        assert_same_prompt(body, options)
        assert_same_reply(body, options)


def without_the_call(outcome: dict[str, Any]) -> dict[str, Any]:
    """Of several calls without results the official library names any one."""
    return outcome if "body" not in outcome else outcome | {"body": ANY_CALL.sub(r"\1", outcome["body"])}


def assert_same_prompt(body: Any, options: dict[str, Any]) -> None:
    result = convert(body, policy_of(options))
    rendered = encode(result.conversation, result.version).rendered()
    official = official_prompt(recipe.ResponsesRequest, body, options)
    assert (rendered.text, list(rendered.special_ranges)) == official


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
@given(responses_requests, conversion_options)
def test_random_requests_are_converted_as_the_official_library_does(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)


@pytest.mark.slow
@OFTEN
@given(damaged(responses_requests), conversion_options)
def test_random_requests_with_mistakes_are_refused_in_the_official_words(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)
