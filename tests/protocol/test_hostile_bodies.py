"""Bodies that nobody should send: converted or refused in words, in time and memory that grow with them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.conversation_dumps import json_values
from fakes.damage import ODD_VALUES, damaged, places
from fakes.injected_requests import Body, Texts, messages_request
from fakes.messages_requests import messages_requests
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.anthropic import convert as anthropic
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.policy import OFFICIAL, Policy, local

Convert = Callable[[Any, Policy], Converted[Any]]
POLICIES = [OFFICIAL, local(ModelVersion.V4), local(ModelVersion.V41)]
MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]
LONG_S = 30.0  # of the processor, for what takes about one second; what is quadratic takes minutes
MANY = 30_000

USER = {"role": "user", "content": "x" * 80}
IMAGE = {"type": "image_url", "image_url": {"url": "https://x"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def told(convert: Convert, body: Any, policy: Policy) -> str | None:
    """None if the body was converted and can be told to the model, or what it was refused with."""
    try:
        result = convert(body, policy)
    except RequestError as error:
        return str(error)
    encode(result.conversation, result.version)
    return None


def check_messages(body: Any) -> None:
    for policy in POLICIES:
        assert told(anthropic.convert, body, policy) != ""


def whole(*, is_official: bool) -> Body:
    names = iter("fghij")
    return messages_request(Texts(lambda: "x", lambda: "x", lambda: next(names), is_official)) | {"model": MODELS[1]}


def test_the_body_that_is_damaged_below_is_whole() -> None:
    assert told(anthropic.convert, whole(is_official=True), OFFICIAL) is None
    assert told(anthropic.convert, whole(is_official=False), POLICIES[1]) is None


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.one_of(json_values, damaged(messages_requests)))
def test_any_messages_body_is_converted_or_refused_in_words(body: Any) -> None:
    check_messages(body)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
def test_a_wrong_value_at_any_place_of_a_messages_body_is_converted_or_refused(odd: Any) -> None:
    for is_official in (True, False):
        for place in range(len(list(places(whole(is_official=is_official))))):
            body = json.loads(json.dumps(whole(is_official=is_official)))
            parent, key = list(places(body))[place]
            parent[key] = odd
            check_messages(body)


def chat_call(number: int) -> Body:
    function = {"name": "f", "arguments": "{}"}
    return {"id": f"c{number}", "type": "function", "function": function}


def chat_result(number: int) -> Body:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": "x"}


def use(number: int) -> Body:
    return {"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}}


def result(number: int) -> Body:
    return {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x"}


def said(role: str, *content: Body) -> Body:
    return {"role": role, "content": list(content)}


LONG_CHATS: dict[str, Callable[[], list[Body]]] = {
    "users": lambda: [USER] * MANY,
    "systems": lambda: [{**USER, "role": "system"}] * MANY,
    "images": lambda: [said("user", IMAGE)] * (MANY // 4),
    "images of one message": lambda: [said("user", *[IMAGE] * MANY)],
    "answers": lambda: [{**USER, "role": "assistant"}] * MANY,
    "reminders": lambda: [{**USER, "role": "latest_reminder"}] * MANY,
    "calls of one answer": lambda: [
        {"role": "assistant", "content": None, "tool_calls": list(map(chat_call, range(MANY // 4)))},
        *map(chat_result, reversed(range(MANY // 4))),
    ],
    "results without calls": lambda: list(map(chat_result, range(MANY))),
    "grounding": lambda: [USER, {"role": "assistant", "content": "<｜ref｜>x" * MANY + "<｜re" * MANY}],
    "unknown parts": lambda: [said("user", *({"type": f"t{number}"} for number in range(MANY)))],
}
LONG_MESSAGES: dict[str, Callable[[], list[Body]]] = {
    "users": lambda: [USER] * MANY,
    "texts of one message": lambda: [said("user", *[{"type": "text", "text": "x" * 80}] * MANY)],
    "images": lambda: [said("user", PICTURE)] * (MANY // 4),
    "answers": lambda: [{**USER, "role": "assistant"}] * MANY,
    "thoughts": lambda: [said("assistant", *[{"type": "thinking", "thinking": "x" * 80}] * MANY), USER],
    "reminders": lambda: [said("user", {"type": "text", "text": "<system-reminder>" * MANY})],
    "calls of one answer": lambda: [
        said("assistant", *map(use, range(MANY // 4))),
        said("user", *map(result, reversed(range(MANY // 4)))),
    ],
    "rounds": lambda: [
        turn for number in range(MANY // 4) for turn in (said("assistant", use(number)), said("user", result(number)))
    ],
    "results without calls": lambda: [said("user", result(number)) for number in range(MANY // 4)],
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=["official", "V4", "V4.1"])
@pytest.mark.parametrize("name", LONG_CHATS)
def test_a_long_chat_takes_no_longer_than_its_length(name: str, policy: Policy) -> None:
    check_time(chat.convert, LONG_CHATS[name](), policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=["official", "V4", "V4.1"])
@pytest.mark.parametrize("name", LONG_MESSAGES)
def test_many_messages_take_no_longer_than_their_length(name: str, policy: Policy) -> None:
    check_time(anthropic.convert, LONG_MESSAGES[name](), policy)


def check_time(convert: Convert, messages: list[Body], policy: Policy) -> None:
    for model in MODELS if policy.is_official else MODELS[:1]:
        started = time.process_time()
        told(convert, {"model": model, "max_tokens": 9, "messages": messages}, policy)
        assert time.process_time() - started < LONG_S


MEGABYTES_FOR_THIRTY = """
import json, resource, sys
from whitedwarf.errors import RequestError
from whitedwarf.protocol.{module} import convert
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.policy import OFFICIAL, local
from whitedwarf.prompt.encode import ModelVersion, encode
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = b'{head}"' + {piece} * (30_000_000 // len({piece})) + b'"{tail}'
for policy in (OFFICIAL, local(ModelVersion.V4)):
    try:
        result = convert(read_json(text), policy)
        encode(result.conversation, result.version)
    except RequestError:
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
HEADS = {
    "openai_chat.convert": ('{"model":"DeepSeek-V4-Pro","messages":[{"role":"user","content":', "}]}"),
    "anthropic.convert": ('{"model":"DeepSeek-V4-Pro","max_tokens":9,"messages":[{"role":"user","content":', "}]}"),
    "openai_responses.convert": ('{"model":"DeepSeek-V4-Pro","input":', "}"),
    "completions": ('{"model":"DeepSeek-V4-Pro","prompt":', "}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("piece", [b"a", b"\\n", b"\\ud83d\\ude00", b"\\ud800", "é".encode(), b"\xff"], ids=repr)
@pytest.mark.parametrize("module", HEADS)
def test_a_long_text_takes_memory_in_proportion(module: str, piece: bytes) -> None:
    head, tail = HEADS[module]
    script = MEGABYTES_FOR_THIRTY.format(module=module, head=head, tail=tail, piece=piece)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300
