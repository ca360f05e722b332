"""The official parse vectors in full protocol form: every event, per push, and the accumulated body, keys in order."""

import json
from typing import Any

import pytest

from prompt.parse_facts import Vector, load_vectors, options_of
from protocol.openai_responses.parsed_answers import official_reply, run
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.openai_responses.stream import sse_name

VECTORS = [vector for vector in load_vectors() if vector["protocol"] == "responses"]
cases = pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])


def told(vector: Vector, tokenizers: dict[ModelVersion, Tokenizer]) -> Any:
    return run(
        vector["chunks"],
        options_of(vector),
        official_reply(vector["request"]),
        tokenizers[ModelVersion.V4],
    )


@cases
def test_every_push_gives_the_official_events(vector: Vector, official_tokenizers: Any) -> None:
    pushes, _ = told(vector, official_tokenizers)
    expect = vector["expect"]
    assert [len(push) for push in pushes] == expect["per_push"]
    events = [event for push in pushes for event in push]
    for ours, official in zip(events, expect["events"], strict=True):
        assert json.dumps(ours) == json.dumps(official)


@cases
def test_the_events_add_up_to_the_official_body(vector: Vector, official_tokenizers: Any) -> None:
    pushes, body = told(vector, official_tokenizers)
    assert json.dumps(body) == json.dumps(vector["expect"]["final"])
    assert (len(pushes) <= len(vector["chunks"])) == vector["expect"]["stopped_early"]


@cases
def test_sse_names_are_the_types(vector: Vector, official_tokenizers: Any) -> None:
    pushes, _ = told(vector, official_tokenizers)
    is_so = all(sse_name(event) == event["type"] for push in pushes for event in push)
    assert is_so == vector["expect"]["sse_names_match_type"]
