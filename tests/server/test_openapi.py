"""The OpenAPI document: true of the converters, and of running servers that schemathesis asks.

For a long run: WHITEDWARF_SCHEMA_EXAMPLES of requests to each address, from the seed WHITEDWARF_SCHEMA_SEED.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import one_of
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi import checks

from server.serving import BODIES, HandEngine, Running, says, serving
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Dialect
from whitedwarf.protocol.policy import local
from whitedwarf.server.openapi import openapi_document
from whitedwarf.server.openapi_requests import REQUESTS
from whitedwarf.weights.store import bundled_model

EXAMPLES = int(os.environ.get("WHITEDWARF_SCHEMA_EXAMPLES", "8"))
SEED = int(os.environ.get("WHITEDWARF_SCHEMA_SEED", "1"))
CHECKS: Any = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.allow_header_conformance,
    checks.unsupported_method,
]
DIALECTS = {
    "ChatRequest": CHAT,
    "CompletionRequest": COMPLETIONS,
    "ResponsesRequest": RESPONSES,
    "MessagesRequest": MESSAGES,
}
ADDRESSES = [(path, method) for path, operations in openapi_document()["paths"].items() for method in operations]


@pytest.fixture(scope="module")
def scripted(tokenizer: Tokenizer) -> Iterator[Running]:
    with serving(HandEngine(play=says(tokenizer, ["Hello"])), tokenizer) as server:
        yield server


@pytest.fixture(scope="module")
def nano(tokenizer: Tokenizer) -> Iterator[Running]:
    loaded = open_model(ModelSettings(model=str(bundled_model()), context=512))
    with Engine(loaded.transformer, prefix_budget_bytes=1 << 24) as engine, serving(engine, tokenizer) as server:
        yield server


def ask_all(server: Running, path: str, method: str, examples: int, **more: Any) -> None:
    """Requests as the document describes them, and spoilt ones; the answers have to be as it says."""
    schema: Any = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    operation = schema[path][method.upper()]

    cases = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @given(case=one_of(cases))
    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        if isinstance(case.body, dict):
            case.body.update(more)
        case.call_and_validate(base_url=server.url, checks=CHECKS, timeout=20)

    ask()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), ADDRESSES)
def test_answers_are_as_the_document_says(path: str, method: str, scripted: Running) -> None:
    ask_all(scripted, path, method, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("path", BODIES)
def test_a_model_answers_as_the_document_says(path: str, nano: Running) -> None:
    name = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    ask_all(nano, path, "post", EXAMPLES, **{name: 4})


def path_of(name: str) -> str:
    """The first address that takes this request."""
    return next(path for path, place in openapi_document()["paths"].items() if name in json.dumps(place))


@pytest.mark.parametrize("name", REQUESTS)
def test_every_field_that_is_told_is_read(name: str) -> None:
    dialect: Dialect = DIALECTS[name]
    path = path_of(name)
    others = dict.fromkeys(REQUESTS[name]["properties"])
    converted = dialect.convert({**others, **BODIES[path]}, local(ModelVersion.V4), RecipeMemory())
    assert converted.unknown_fields == ()


@pytest.mark.parametrize("name", REQUESTS)
def test_what_clients_send_is_as_the_document_says(name: str) -> None:
    Draft202012Validator(REQUESTS[name]).validate(BODIES[path_of(name)])


def test_the_document_is_one_and_names_every_address(scripted: Running) -> None:
    answer = scripted.client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document == openapi_document()
    assert document["openapi"] == "3.1.0"
    for path, method in ADDRESSES:
        shown = path.replace("{model_id}", "tiny")
        assert scripted.client.request(method, shown, json={}).status_code in (200, 400), path
    names = {operation["operationId"] for operations in document["paths"].values() for operation in operations.values()}
    assert len(names) == len(ADDRESSES)
