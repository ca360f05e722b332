"""Bodies of our own, byte for byte as llama-server writes them: by the specification, and by a real one."""

import json
import re
from pathlib import Path

import pytest

from supervisor.supervisors import JSON, Supervisor, config_of, model_of, supervisor
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor import answers
from whitedwarf.supervisor.failures import (
    QueueFullError,
    StartFailedError,
    UnloadedError,
    UpstreamDownError,
    WaitedTooLongError,
)
from whitedwarf.supervisor.upstream import Address, Answer, ask

FAILURES = (
    StartFailedError("it did not start", is_permanent=True, log_tail=("E no",)),
    StartFailedError("it did not start", is_permanent=False),
    WaitedTooLongError("no place"),
    UnloadedError("by order"),
    UpstreamDownError("gone"),
    UsageError("no such model"),
    WhitedwarfError("odd"),
)


def test_bodies_are_those_of_the_specification() -> None:
    assert answers.overflow(1215, 512).body == (
        b'{"error":{"code":400,"message":"request (1215 tokens) exceeds the available context size (512 tokens), '
        b'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1215,"n_ctx":512}}'
    )
    assert answers.loading().body == (b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}')
    assert answers.not_found().body == (b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}')
    assert answers.wrong_key().body == (
        b'{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}'
    )
    assert answers.healthy().body == b'{"status":"ok"}'


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_no_failure_has_the_words_of_another(error: Exception) -> None:
    said = json.loads(answers.failure(error).body)["error"]["message"]
    assert not re.search(r"rate limit|too many requests|context size|\b4\d\d\b|\b5\d\d\b", said, re.IGNORECASE)


def test_a_full_queue_is_a_429() -> None:
    assert answers.failure(QueueFullError("64 wait")).status == 429


@pytest.mark.parametrize(("held_s", "told"), [(None, b"5"), (59.2, b"60"), (0.0, b"1")])
def test_a_start_that_failed_says_when_it_may_be_tried_again(held_s: float | None, told: bytes) -> None:
    error = StartFailedError("it did not start", is_permanent=False, retry_after_s=held_s)
    assert dict(answers.failure(error).headers)[b"retry-after"] == told


def test_what_a_failed_start_said_last_is_told_once() -> None:
    said = "model 'm' did not start: its last words: E no"
    short = answers.failure(StartFailedError(said, is_permanent=True, log_tail=("E no",)))
    assert json.loads(short.body)["error"]["message"] == said
    long = answers.failure(StartFailedError(said, is_permanent=True, log_tail=("I one", "E no")))
    assert json.loads(long.body)["error"]["message"] == f"{said}\nThe end of its log:\nI one\nE no"


@pytest.mark.parametrize("text", ["caf\u00e9", "\ud800", 'a"\\\n'])
def test_any_text_can_be_told(text: str) -> None:
    answer = answers.refusal(400, text)
    assert dict(answer.headers)[b"content-length"] == b"%d" % len(answer.body)
    assert json.loads(answer.body)["error"]["code"] == 400


@pytest.mark.anyio
@pytest.mark.clients
async def test_a_real_llama_server_writes_the_same(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    model = {**model_of(tmp_path, "m"), "path": str(markov), "ctxSize": 1024, "softContextLimit": 512}
    config = {**config_of(tmp_path), "llamaServer": {"bin": str(llama_server), "args": ["-np", "1"]}}
    async with supervisor(tmp_path, {**config, "models": [model]}) as it:
        assert (await it.chat("m", "count 5")).status == 200
        for is_stream in (False, True):
            letter = "xy"[is_stream]  # the same conversation again would be its summary, which passes
            soft, hard = await it.chat("m", letter * 700, stream=is_stream), await real(it, letter * 1500, is_stream)
            counted = json.loads(hard.body)["error"]["n_prompt_tokens"]
            assert hard.body == answers.overflow(counted, 1024).body
            counted = json.loads(soft.body)["error"]["n_prompt_tokens"]
            assert soft.body == answers.overflow(counted, 512).body
            assert (soft.status, hard.status) == (400, 400)
            assert told(soft, b"content-type") == told(hard, b"content-type")
            assert told(soft, b"connection") == told(hard, b"connection") == b"close"
        missing = await ask(await behind(it), "GET", "/nothing", timeout_s=10)
        assert missing.body == answers.not_found().body == (await it.get("m", "/nothing")).body
        health = await ask(await behind(it), "GET", "/health", timeout_s=10)
        assert health.body == (await it.get("m", "/health")).body
        ours = (await it.get("m", "/v1/models")).body
        theirs = (await ask(await behind(it), "GET", "/v1/models", timeout_s=10)).body
        assert set(json.loads(theirs)["data"][0]) <= {*json.loads(ours)["data"][0], "architecture"}


async def behind(it: Supervisor) -> Address:
    return Address("127.0.0.1", (await it.status("m"))["internal_port"])


async def real(it: Supervisor, words: str, is_stream: bool) -> Answer:
    body = json.dumps({"messages": [{"role": "user", "content": words}], "stream": is_stream}).encode()
    return await ask(await behind(it), "POST", "/v1/chat/completions", JSON, body, timeout_s=30)


def told(answer: Answer, name: bytes) -> bytes:
    return next(value for key, value in answer.headers if key.lower() == name)
