"""While a long prompt is read: early headers, signs of life, nothing invented, and an end when the client leaves."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from fakes.gates import PATIENCE_S
from fakes.scripted_server import Served, eventually, says, serving
from whitedwarf.engine.request import FinishReason

PREFILL_S = 3.0
KEEPALIVE_S = 0.3
LATE_S = 2.0  # the machines are shared
SLOW = says("Done.", prefill_s=PREFILL_S)
ASKED = [{"role": "user", "content": "Read all of this. " * 50}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": ASKED, "reasoning_effort": "none"},
    "/v1/messages": {"messages": ASKED, "max_tokens": 50},
    "/v1/responses": {"input": ASKED, "reasoning": {"effort": "none"}},
    "/v1/completions": {"prompt": ASKED[0]["content"]},
}


@contextmanager
def streamed(served: Served, path: str) -> Iterator[httpx2.Response]:
    body = {"model": "any", "stream": True, **BODIES[path]}
    with httpx2.stream("POST", served.url + path, json=body, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        yield answer


def timed_events(answer: httpx2.Response, started_s: float) -> list[tuple[float, Any]]:
    """Each data line, and when it came."""
    lines = ((time.monotonic() - started_s, line) for line in answer.iter_lines())
    return [(at_s, json.loads(line[6:])) for at_s, line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("path", BODIES)
def test_a_client_never_waits_in_silence_and_nothing_is_invented_p17(path: str) -> None:
    with serving(SLOW, keepalive_s=KEEPALIVE_S) as served:
        started_s = time.monotonic()
        with streamed(served, path) as answer:
            assert time.monotonic() - started_s < LATE_S
            told = timed_events(answer, started_s)
    moments = [0.0, *(at_s for at_s, _ in told)]
    assert max(later - earlier for earlier, later in pairwise(moments)) < KEEPALIVE_S + LATE_S
    early = [event for at_s, event in told if at_s < PREFILL_S]
    assert len(early) >= 3
    assert "Done" not in json.dumps(early)
    assert "Done" in json.dumps(told)


def test_messages_begin_early_and_then_ping_p17() -> None:
    with serving(SLOW, keepalive_s=KEEPALIVE_S) as served, streamed(served, "/v1/messages") as answer:
        types = [event["type"] for _, event in timed_events(answer, time.monotonic())]
    assert types[0] == "message_start"
    assert types.count("ping") >= 4
    assert types[-1] == "message_stop"


def test_responses_are_created_early_p17() -> None:
    with serving(SLOW, keepalive_s=KEEPALIVE_S) as served, streamed(served, "/v1/responses") as answer:
        told = timed_events(answer, time.monotonic())
    assert [event["type"] for _, event in told[:2]] == ["response.created", "response.in_progress"]
    assert told[1][0] < LATE_S
    assert [event["sequence_number"] for _, event in told] == list(range(len(told)))


@pytest.mark.parametrize("path", BODIES)
def test_who_leaves_while_the_prompt_is_read_ends_it_and_what_was_read_is_kept_p18(path: str) -> None:
    with serving(says("x", prefill_s=10.0), says("Done.")) as served:
        with streamed(served, path):
            assert eventually(lambda: served.last.processed_tokens > 5)
        assert eventually(lambda: served.last.finish is FinishReason.CANCELLED, 5.0)
        read = served.last.processed_tokens
        assert read < len(served.last.ids)
        httpx2.post(served.url + path, json={"model": "any", **BODIES[path]}, timeout=PATIENCE_S).raise_for_status()
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= read
