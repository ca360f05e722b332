"""What is refused before any work, and how each dialect is told."""

import json
from typing import Any

import pytest

from server.serving import BODIES, JSON, HandEngine, Running, serving, whole_answer
from whitedwarf.errors import EngineBusyError, EngineClosedError
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule

ALL = pytest.mark.parametrize("path", BODIES)
MODES = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])


def check_shape(path: str, body: dict[str, Any]) -> None:
    """The error is in the words of the address's dialect."""
    keys = ["type", "message"] if path == "/v1/messages" else ["message", "type", "param", "code"]
    assert list(body["error"])[: len(keys)] == keys
    assert body["error"]["message"]
    assert ("type" in body) is (path == "/v1/messages")


@ALL
@MODES
def test_a_full_queue_is_429_with_a_time_to_wait(path: str, is_streamed: bool, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(error=EngineBusyError("64 requests wait")), tokenizer) as server:
        answer = server.client.post(path, json={**BODIES[path], "stream": is_streamed})
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    check_shape(path, answer.json())


@ALL
def test_a_server_that_shuts_down_is_503(path: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(error=EngineClosedError("closing")), tokenizer) as server:
        answer = server.client.post(path, json=BODIES[path])
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    check_shape(path, answer.json())


@ALL
@MODES
def test_a_prompt_that_does_not_fit_is_400_with_both_numbers(
    path: str, is_streamed: bool, tokenizer: Tokenizer
) -> None:
    engine = HandEngine(context_length=1000)
    long = json.loads(json.dumps(BODIES[path]).replace("Go on.", "word " * 1400))
    with serving(engine, tokenizer) as server:
        answer = server.client.post(path, json={**long, "stream": is_streamed})
    body = answer.json()
    assert answer.status_code == 400
    check_shape(path, body)
    assert (body["error"]["n_ctx"], body["error"]["n_prompt_tokens"] >= 1400) == (1000, True)
    if path == "/v1/messages":
        assert body["error"]["message"].startswith("prompt is too long: ")
    else:
        assert body["error"]["code"] == "context_length_exceeded"
    assert engine.submitted.empty()


@ALL
def test_what_is_no_json_is_400(path: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        for body in (b"", b"{", b"[]", b"\xff", b"[" * 10_000):
            answer = server.client.post(path, content=body, headers=JSON)
            assert answer.status_code == 400
            check_shape(path, answer.json())


@ALL
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "text/json"])
def test_only_json_may_be_posted(path: str, content_type: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        headers = {"content-type": content_type} if content_type else {}
        answer = server.client.post(path, content=json.dumps(BODIES[path]).encode(), headers=headers)
    assert answer.status_code == 415
    check_shape(path, answer.json())


def raw(server: Running, request: bytes) -> bytes:
    with server.connect(request) as connection:
        return whole_answer(connection)


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(tokenizer: Tokenizer) -> None:
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with serving(HandEngine(), tokenizer) as server:
        answer = raw(server, head + b"content-length: 100000000\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"request_too_large" in answer
        assert server.client.get("/health").status_code == 200


def test_a_body_that_hides_its_length_is_refused_when_it_is_too_large(tokenizer: Tokenizer) -> None:
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with serving(HandEngine(), tokenizer, max_body_bytes=50_000) as server:
        assert raw(server, head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 2).startswith(b"HTTP/1.1 413 ")


@ALL
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "a@localhost"])
def test_a_foreign_host_is_refused(path: str, host: str, tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer) as server:
        answer = server.client.post(path, json=BODIES[path], headers={"host": host})
        assert answer.status_code == 403
        check_shape(path, answer.json())
        assert server.client.get("/v1/models", headers={"host": host}).status_code == 403
    assert engine.submitted.empty()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
def test_a_page_of_another_site_is_refused(origin: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        for path in (*BODIES, "/metrics"):
            method = "GET" if path == "/metrics" else "POST"
            answer = server.client.request(method, path, json={}, headers={"origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
        assert server.client.options("/v1/messages", headers={"origin": origin}).status_code == 403


def test_our_own_page_may_ask(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        assert server.client.get("/v1/models", headers={"origin": server.url}).status_code == 200


def test_with_cors_every_page_may_ask_and_every_response_says_so(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, hosts=HostRule(frozenset(), allows_all_origins=True)) as server:
        page = {"origin": "https://page.example"}
        answers = [
            server.client.options("/v1/messages", headers=page),
            server.client.get("/v1/models", headers=page),
            server.client.get("/nowhere", headers=page),
            server.client.post("/v1/messages", content=b"{", headers={**page, **JSON}),
        ]
    assert [answer.status_code for answer in answers] == [204, 200, 404, 400]
    assert all(answer.headers["access-control-allow-origin"] == "*" for answer in answers)


@ALL
def test_without_a_key_of_ours_nothing_is_told(path: str, tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer, keys=ApiKeys(["first", "second"])) as server:
        for headers in ({}, {"authorization": "Bearer fir"}, {"x-api-key": "third"}, {"authorization": "Basic first"}):
            answer = server.client.post(path, json=BODIES[path], headers=headers)
            assert answer.status_code == 401
            check_shape(path, answer.json())
            for other in ("/v1/models", "/metrics", "/", "/nowhere"):
                assert server.client.get(other, headers=headers).status_code == 401
        assert server.client.get("/health").status_code == 200
    assert engine.submitted.empty()


@pytest.mark.parametrize("headers", [{"authorization": "Bearer second"}, {"x-api-key": "first"}])
def test_each_of_several_keys_will_do(headers: dict[str, str], tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, keys=ApiKeys(["first", "second"])) as server:
        assert server.client.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("name", ["../../etc/passwd", "%2e%2e%2fetc", "nano%00", "a/b", "*"])
def test_a_model_id_is_only_compared(name: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        answer = raw(server, f"GET /v1/models/{name} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b'"model_not_found"' in answer


def test_unknown_addresses_and_methods_are_told_in_the_dialect_of_the_address(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        nowhere = server.client.post("/v1/messages/batches", json={})
        wrong = server.client.get("/v1/chat/completions")
    assert (nowhere.status_code, nowhere.json()["error"]["type"]) == (404, "not_found_error")
    assert (wrong.status_code, wrong.json()["error"]["code"], wrong.headers["allow"]) == (
        405,
        "method_not_allowed",
        "POST",
    )


def test_embeddings_are_not_made_up(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        answer = server.client.post("/v1/embeddings", json={"model": "any", "input": "a text"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "not_supported")
    check_shape("/v1/embeddings", answer.json())
    assert "Use a model made for embeddings" in answer.json()["error"]["message"]
