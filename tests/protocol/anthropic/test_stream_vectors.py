import json

import pytest

from prompt.parse_facts import Vector, load_vectors
from protocol.answer_runs import messages_body, vector_run
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.anthropic.stream import sse_name

VECTORS = [vector for vector in load_vectors() if vector["protocol"] == "messages"]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_events_and_body_are_the_official_ones(
    vector: Vector, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    expect = vector["expect"]
    run = vector_run(vector, official_tokenizers[ModelVersion(expect["model_version"])])
    assert json.dumps(run.told) == json.dumps(expect["events"])  # as text: the keys' order counts
    assert [len(push) for push in run.pushes] == expect["per_push"]
    assert run.stopped_early == expect["stopped_early"]
    assert all(sse_name(event) == event["type"] for event in run.told) == expect["sse_names_match_type"]
    assert json.dumps(messages_body(run.told)) == json.dumps(expect["final"])
