"""What clients are told when there is no answer: the bodies that agents know (spec/clients.md 5, demand.md P22)."""

import anthropic
import httpx2
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import BackendError, ContextOverflowError, EngineBusyError, WhitedwarfError
from whitedwarf.protocol.failures import (
    ContextLengthExceeded,
    Failure,
    FailureKind,
    InvalidJson,
    MalformedRequest,
    RefusedRequest,
    anthropic_body,
    openai_body,
    openai_error,
)
from whitedwarf.protocol.resolution import resolve_max_tokens

TOO_LONG = Failure.of(ContextLengthExceeded("official words", prompt_tokens=1400, context_length=1000))


@pytest.mark.parametrize(("param", "noun"), [("messages", "messages"), ("input", "messages"), ("prompt", "prompt")])
def test_openai_clients_are_told_both_numbers(param: str, noun: str) -> None:
    assert openai_body(TOO_LONG, param) == {
        "error": {
            "message": "This model's maximum context length is 1000 tokens. However, "
            f"your {noun} resulted in 1400 tokens. Please reduce the length of the {noun}.",
            "type": "invalid_request_error",
            "param": param,
            "code": "context_length_exceeded",
            "n_prompt_tokens": 1400,
            "n_ctx": 1000,
        }
    }


def test_anthropic_clients_are_told_both_numbers() -> None:
    assert anthropic_body(TOO_LONG) == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 1400 tokens > 1000 maximum",
            "n_prompt_tokens": 1400,
            "n_ctx": 1000,
        },
    }


def test_an_answer_that_does_not_fit_behind_a_prompt_that_does_is_told_as_such() -> None:
    with pytest.raises(ContextLengthExceeded) as caught:
        resolve_max_tokens(500, 800, 1000, is_thinking=False, effort=None)
    failure = Failure.of(caught.value)
    for body in (openai_body(failure), anthropic_body(failure)):
        error = body["error"]
        assert isinstance(error, dict)
        assert "you requested 1300 tokens (800 in the messages, 500 in the completion)" in str(error["message"])
        assert (error["n_prompt_tokens"], error["n_ctx"]) == (800, 1000)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (InvalidJson("invalid JSON request: EOF"), FailureKind.INVALID, "invalid JSON request: EOF"),
        (MalformedRequest("missing field `model`"), FailureKind.INVALID, "invalid request body: missing field `model`"),
        (RefusedRequest("no"), FailureKind.INVALID, "no"),
        (ContextOverflowError("too long"), FailureKind.TOO_LONG, "too long"),
        (EngineBusyError("wait"), FailureKind.RATE_LIMITED, "wait"),
        (BackendError("broken"), FailureKind.SERVER, "broken"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_error_of_ours_is_some_failure(error: WhitedwarfError, kind: FailureKind, message: str) -> None:
    assert Failure.of(error) == Failure(kind, message)


def test_a_refusal_is_the_official_body() -> None:
    refusal = RefusedRequest("no")
    assert openai_body(Failure.of(refusal)) == openai_error(refusal)


@pytest.mark.parametrize("kind", FailureKind)
def test_bodies_have_their_keys_in_order_and_never_an_empty_message(kind: FailureKind) -> None:
    failure = Failure(kind, "words")
    openai_shown, anthropic_shown = openai_body(failure)["error"], anthropic_body(failure)["error"]
    assert isinstance(openai_shown, dict)
    assert isinstance(anthropic_shown, dict)
    assert list(openai_shown) == ["message", "type", "param", "code"]
    assert list(anthropic_shown) == ["type", "message"]
    assert openai_shown["message"] == anthropic_shown["message"] == "words"


def server(failure: Failure, body: dict[str, Json]) -> httpx2.Client:
    answer = httpx2.Response(failure.status, json=body)
    return httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))


@pytest.mark.parametrize("kind", FailureKind)
def test_the_openai_sdk_reads_the_body(kind: FailureKind) -> None:
    failure = Failure(kind, "words")
    client = OpenAI(api_key="k", max_retries=0, http_client=server(failure, openai_body(failure)))
    with pytest.raises(openai.APIStatusError, match="words") as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert (caught.value.status_code, caught.value.type, caught.value.code) == (
        kind.status,
        kind.openai_type,
        kind.openai_code,
    )


@pytest.mark.parametrize("kind", FailureKind)
def test_the_anthropic_sdk_reads_the_body(kind: FailureKind) -> None:
    failure = Failure(kind, "words")
    client = Anthropic(api_key="k", max_retries=0, http_client=server(failure, anthropic_body(failure)))
    with pytest.raises(anthropic.APIStatusError, match="words") as caught:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert caught.value.status_code == kind.status
    assert caught.value.type == kind.anthropic_type
