"""Random Chat requests: the official library and we must convert alike, or refuse with the same words."""

import os
from dataclasses import replace
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import HealthCheck, given, settings

from fakes.chat_requests import chat_requests, conversion_options
from fakes.damage import maybe_damaged
from fakes.official_requests import official_outcome, official_prompt
from protocol.vectors import converted, policy_of
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import OFFICIAL, Policy, local

EXAMPLES = int(os.environ.get("WHITEDWARF_EXAMPLES", "2000"))
OFTEN = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(OFTEN, max_examples=60)


def assert_same_outcome(body: dict[str, Any], options: dict[str, Any]) -> None:
    official = official_outcome(recipe.ChatCompletionRequest, body, options)
    assert converted({"request": body, "options": options}, convert) == official


@QUICK
@given(maybe_damaged(chat_requests), conversion_options)
def test_a_few_random_requests_are_converted_as_the_official_library_does(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)


@pytest.mark.slow
@OFTEN
@given(maybe_damaged(chat_requests), conversion_options)
def test_random_requests_are_converted_as_the_official_library_does(
    body: dict[str, Any], options: dict[str, Any]
) -> None:
    assert_same_outcome(body, options)


@settings(OFTEN, max_examples=EXAMPLES // 8)
@given(chat_requests, conversion_options)
def test_random_requests_give_the_official_prompt(body: dict[str, Any], options: dict[str, Any]) -> None:
    official = official_prompt(recipe.ChatCompletionRequest, body, options)
    if official is not None:
        converted_request = convert(body, policy_of(options))
        rendered = encode(converted_request.conversation, converted_request.version).rendered()
        assert (rendered.text, list(rendered.special_ranges)) == official


def accepted(body: dict[str, Any], policy: Policy) -> Conversation | None:
    try:
        return convert(body, policy).conversation
    except RequestError:
        return None


@settings(OFTEN, max_examples=EXAMPLES // 10)
@given(maybe_damaged(chat_requests))
def test_what_the_official_policy_accepts_the_local_one_reads_the_same(body: dict[str, Any]) -> None:
    official = accepted(body, OFFICIAL)
    if official is not None:
        version = ModelVersion.V4 if body["model"] == "DeepSeek-V4-Pro" else ModelVersion.V41
        ours = accepted(body, local(version))
        assert ours is not None
        assert replace(ours, tools=official.tools) == official  # strict tools are shown as they came
        assert [tool.name for tool in ours.tools] == [tool.name for tool in official.tools]
