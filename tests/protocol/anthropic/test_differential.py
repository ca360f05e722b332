"""Random Messages requests: our conversion and the official library's must give the same, or fail in the same words."""

import os
from typing import Any

import deepseek_recipe as recipe
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fakes.conversation_dumps import json_values
from fakes.damage import damaged
from fakes.messages_requests import conversion_options, messages_requests
from fakes.official_requests import official_outcome
from protocol.vectors import converted
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.anthropic.convert import convert
from whitedwarf.protocol.failures import RequestError
from whitedwarf.protocol.policy import OFFICIAL, local

EXAMPLES = int(os.environ.get("WHITEDWARF_EXAMPLES", "1000"))
OFTEN = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(OFTEN, max_examples=60)


def assert_same(body: dict[str, Any], chosen: dict[str, Any]) -> None:
    official = official_outcome(recipe.MessagesRequest, body, chosen)
    event(official.get("stage", "converted"))
    assert converted({"request": body, "options": chosen}, convert) == official


@QUICK
@given(messages_requests, conversion_options)
def test_a_few_random_requests_are_converted_like_the_official_ones(
    body: dict[str, Any], chosen: dict[str, Any]
) -> None:
    assert_same(body, chosen)


@pytest.mark.slow
@OFTEN
@given(messages_requests, conversion_options)
def test_random_requests_are_converted_like_the_official_ones(body: dict[str, Any], chosen: dict[str, Any]) -> None:
    assert_same(body, chosen)


@pytest.mark.slow
@OFTEN
@given(damaged(messages_requests), conversion_options)
def test_damaged_requests_fail_like_the_official_ones(body: dict[str, Any], chosen: dict[str, Any]) -> None:
    assert_same(body, chosen)


@pytest.mark.slow
@OFTEN
@given(st.one_of(damaged(messages_requests), json_values), st.sampled_from([OFFICIAL, *map(local, ModelVersion)]))
def test_any_json_is_a_prompt_or_a_request_error(body: Any, policy: Any) -> None:
    try:
        result = convert(body, policy)
    except RequestError as error:
        complaint = str(error)
    else:
        complaint = ""
        encode(result.conversation, result.version).rendered()
    assert len(complaint) < 2000 or policy is OFFICIAL  # official words may repeat what came
