"""Which conversation a body belongs to: read from its bytes, for all dialects, whatever its size."""

import asyncio
import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.supervisor.conversation import conversation
from whitedwarf.supervisor.grace import Conversation
from whitedwarf.supervisor.json_spans import Scanner, Unreadable, finished, finished_now

SYSTEM = {"role": "system", "content": "You are an agent."}
TASK = {"role": "user", "content": 'Refactor "this",\nplease {now} [ok]'}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def read(value: Any, **options: Any) -> Conversation | None:
    return finished_now(conversation(json.dumps(value, **options).encode()))


def chat(*more: Any, system: Any = SYSTEM, first: Any = TASK, tools: Any = TOOLS) -> dict[str, Any]:
    return {"model": "m", "messages": [system, first, *more], "stream": True, "tools": tools, "max_tokens": 5}


def test_a_summary_has_the_conversation_of_what_it_summarises() -> None:
    answer = {"role": "assistant", "content": "Done."}
    blocked = read(chat(answer, {"role": "user", "content": "more"}))
    summary = read({**chat(answer, {"role": "user", "content": "Summarise all this."}), "max_tokens": 99})
    assert blocked == summary is not None


def test_what_follows_a_summary_has_the_same_anchor_only() -> None:
    before, after = read(chat()), read(chat(first={"role": "user", "content": "Summary: …"}))
    assert before is not None
    assert after is not None
    assert before.anchor == after.anchor
    assert before.thread != after.thread


@pytest.mark.parametrize(
    "other", [chat(tools=[]), chat(system={"role": "system", "content": "Make a title."}), {"messages": [TASK]}]
)
def test_another_system_message_or_other_tools_are_another_conversation(other: Any) -> None:
    mine, found = read(chat()), read(other)
    assert mine is not None
    assert found is not None
    assert mine.anchor != found.anchor
    assert mine.thread != found.thread


def test_marks_that_clients_move_around_change_nothing() -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}
    bare = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    header = {"type": "text", "text": "x-anthropic-billing-header: cch=1234;"}
    prompt = {"type": "text", "text": "You are Claude Code."}
    one = read({"system": [header, prompt], "messages": [marked], "tools": TOOLS})
    two = read({"messages": [bare], "tools": TOOLS, "system": [{**header, "text": header["text"] + "5"}, prompt]})
    assert one == two


def test_the_dialects_have_their_own_places_for_the_same() -> None:
    responses = {"instructions": "Be brief.", "input": [{"role": "user", "content": "hi"}], "tools": TOOLS}
    assert read(responses) == read({**responses, "input": [*responses["input"], {"role": "assistant", "content": "x"}]})
    assert read(responses) != read({**responses, "instructions": "Be long."})
    assert read({"input": "hi"}) == read({"input": "hi", "stream": True})
    assert read({"input": "hi"}) != read({"input": "ho"})


NO_REQUESTS = [b"", b"{", b"[]", b"null", b'{"messages":', b'{"messages":[', b'{"a" 1}', b'{"messages":[]', b'{"x":1}']
HALF_REQUESTS = [
    b"\xff{",
    b'{"messages":[{"role":"user","content":"',
    b'{"a":1,}',
    b'{"messages":[1,]}',
    b'{"a":tr ue}',
]


@pytest.mark.parametrize("body", [*NO_REQUESTS, *HALF_REQUESTS])
def test_what_is_no_request_has_no_conversation(body: bytes) -> None:
    assert finished_now(conversation(body)) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_spans_are_where_json_sees_the_values(value: dict[str, Any], is_ascii: bool, indent: int | None) -> None:
    try:
        body = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    except UnicodeEncodeError:
        return
    scanner = Scanner(body)
    spans = finished_now(scanner.members(scanner.first()))
    found = {json.loads(f'"{name}"'): json.loads(body[start:end]) for name, (start, end) in spans.items()}
    assert found == json.loads(body)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ a1', max_size=60).map(str.encode))
def test_no_bytes_make_it_fall(body: bytes) -> None:
    scanner = Scanner(body)
    with contextlib.suppress(Unreadable):
        finished_now(scanner.members(scanner.first()))
    finished_now(conversation(body))


@given(st.text(alphabet='a"\\{}', max_size=40))
def test_strings_end_where_they_end(text: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": text}], "after": 1}).encode()
    scanner = Scanner(body)
    start, end = finished_now(scanner.members(scanner.first()))["messages"]
    assert json.loads(body[start:end])[0]["content"] == text


LONG = [b"[" * 5_000_000, b'{"a":' * 1_000_000, b'{"m":"' + b'\\"' * 4_000_000, b'{"m":"' + b"\\" * 9_999_999 + b'"}}']


@pytest.mark.parametrize("body", LONG, ids=["arrays", "objects", "quotes", "backslashes"])
def test_bodies_made_to_take_long_are_given_up(body: bytes) -> None:
    began = time.process_time()
    assert finished_now(conversation(b'{"messages":' + body)) is None
    assert time.process_time() - began < 60


@pytest.mark.anyio
async def test_others_get_their_turn_while_a_large_body_is_read() -> None:
    body = json.dumps(chat(*({"role": "user", "content": "x"} for _ in range(20_000)))).encode()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    assert await finished(conversation(body)) is not None
    other.cancel()
    assert turns > 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
