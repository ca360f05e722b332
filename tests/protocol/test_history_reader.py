"""Bodies read with what is remembered of earlier ones: the values, and the faults, that the plain reader finds."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.protocol.body_memory import BodyMemory, History
from whitedwarf.protocol.failures import InvalidJson
from whitedwarf.protocol.fields import list_of
from whitedwarf.protocol.json_body import read_json

ITEM_TEXTS = st.sampled_from(
    [
        *(
            '{"a": 1}',
            '{"a": 1.0}',
            '{"a":1}',
            '{"a": true}',
            '{"a": -0}',
            "{}",
            '{ "a" : [ {} , [ ] ] }',
            '{"é": "√"}',
        ),
        *('{"messages": [{"a": 1}]}', r'{"a": "\ud83d\ude00 \\ \"messages\": ["}', '{"a": 18446744073709551616}'),
        *('{"a": "✅"}', '{"a": 1, "a": 2}', '{"b": ' + "[" * 124 + "]" * 124 + "}"),
    ]
)
ODD_TEXTS = st.sampled_from(
    [
        *("1", '"a"', "null", "[]", "[{}]", "", "{", "}", "]", ",", '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}'),
        *('{"a": 01}', '{"a": "\n"}', '{"b": ' + "[" * 125 + "]" * 125 + "}", '{"a": 1},', '{"a": 1}]'),
    ]
)
MEMBERS = st.sampled_from(
    [
        *(
            '"model": "m"',
            '"n": 1',
            '"tools": [{"input": [1]}]',
            '"messages": 5',
            '"input": [{"x": 1}]',
            '"messages": [{}]',
        ),
        *(r'"s": "\"messages\": [{}]"', r'"s": "\ud800"', '"x": {"messages": [{"a": 1}]}', '"é": "✅"', '"n": }', ""),
    ]
)
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n"])


def spelt(value: object) -> str:
    """Told apart to the last bit, whatever kind of list it is."""
    return repr(value)


def outcome(body: bytes, memory: BodyMemory | None) -> str:
    try:
        return spelt(read_json(body, memory))
    except InvalidJson as error:
        return f"refused: {error}"


@st.composite
def bodies(draw: st.DrawFn, items: list[str]) -> bytes:
    name = draw(st.sampled_from(["messages", "input"]))
    blank = draw(BLANKS)
    before, after = draw(st.lists(MEMBERS, max_size=2)), draw(st.lists(MEMBERS, max_size=2))
    separator = draw(st.sampled_from([",", ", "]))
    history = f'"{name}"{blank}:{blank}[{blank}{separator.join(items)}{blank}]'
    return f"{blank}{{{blank}{separator.join([*before, history, *after])}}}{blank}".encode()


@st.composite
def turns(draw: st.DrawFn) -> list[bytes]:
    """Bodies of conversations that grow, are edited, branch off, or are wrong somewhere."""
    items = draw(st.lists(ITEM_TEXTS, max_size=5))
    found = []
    for _ in range(draw(st.integers(1, 6))):
        kept = items[: draw(st.integers(0, len(items)))] if draw(st.booleans()) else items
        items = [*kept, *draw(st.lists(ITEM_TEXTS, max_size=3))]
        odd = draw(st.lists(ODD_TEXTS, max_size=1)) if draw(st.integers(0, 3)) == 0 else []
        body = draw(bodies([*items, *odd]))
        cut = draw(st.integers(0, len(body))) if draw(st.integers(0, 7)) == 0 else len(body)
        found.append(body[:cut])
    return found


@settings(max_examples=600, deadline=None)
@given(turns())
def test_a_body_is_read_as_without_a_memory(all_turns: list[bytes]) -> None:
    memory = BodyMemory()
    for body in [*all_turns, *all_turns]:
        assert outcome(body, memory) == outcome(body, None)


@settings(max_examples=300, deadline=None)
@given(turns())
def test_what_readers_make_of_items_is_the_same(all_turns: list[bytes]) -> None:
    memory, read = BodyMemory(), list_of(spelt)
    for body in all_turns:
        try:
            remembered, plain = read_json(body, memory), read_json(body)
        except InvalidJson:
            continue
        assert isinstance(remembered, dict)
        assert isinstance(plain, dict)
        for name in {"messages", "input"} & plain.keys():
            if isinstance(plain[name], list):
                assert read(remembered[name]) == read(plain[name]) == list(map(spelt, plain[name]))


def test_bytes_that_are_no_utf8_are_refused_wherever_they_stand() -> None:
    memory = BodyMemory()
    read_json(b'{"messages": [{"a": "b"}], "x": 1}', memory)
    for body in (b'{"\xff": 1, "messages": [{"a": "b"}]}', b'{"messages": [{"a": "b"}, {"\xff": 1}]}'):
        assert outcome(body, memory) == outcome(body, None)
        assert outcome(body, memory).startswith("refused")


def body_of(count: int, first: str = "") -> bytes:
    return json.dumps({"model": "m", "messages": [{"text": f"{first}{number}"} for number in range(count)]}).encode()


def messages_in(body: bytes, memory: BodyMemory) -> Any:
    value = read_json(body, memory)
    assert isinstance(value, dict)
    return value["messages"]


def test_the_next_turn_has_the_very_same_items_and_reads_new_ones_only() -> None:
    memory, asked = BodyMemory(), []

    def read_item(value: Any) -> int:
        asked.append(value)
        return len(asked)

    read = list_of(read_item)
    first, second = messages_in(body_of(5), memory), None
    assert read(first) == [1, 2, 3, 4, 5]
    second = messages_in(body_of(7), memory)
    assert isinstance(second, History)
    assert all(one is other for one, other in zip(first, second, strict=False))
    assert read(second) == [1, 2, 3, 4, 5, 6, 7]
    assert read(messages_in(body_of(7), memory)) == [1, 2, 3, 4, 5, 6, 7]
    assert read(messages_in(body_of(3), memory)) == [1, 2, 3]
    assert len(asked) == 7


def test_the_caller_may_change_the_list_it_got() -> None:
    memory, read = BodyMemory(), list_of(spelt)
    read(messages_in(body_of(2), memory)).clear()
    messages_in(body_of(2), memory).clear()
    assert len(read(messages_in(body_of(2), memory))) == 2


def test_a_conversation_is_kept_once_however_it_grows_and_branches_are_kept_apart() -> None:
    memory = BodyMemory()
    for count in range(1, 9):
        read_json(body_of(count), memory)
    assert len(memory) == 1
    read_json(body_of(4), memory)
    read_json(body_of(4, "other"), memory)
    assert len(memory) == 3


def test_what_is_kept_is_bounded() -> None:
    memory = BodyMemory(200_000)
    for number in range(300):
        read_json(body_of(number % 50 + 1, f"{number} "), memory)
        assert memory.size_bytes <= 200_000
    assert 3 < len(memory) <= 128
    memory.clear()
    assert (len(memory), memory.size_bytes) == (0, 0)


def test_a_history_too_large_drives_nothing_out() -> None:
    memory = BodyMemory(100_000)
    read_json(body_of(3), memory)
    read_json(body_of(3000, "other"), memory)
    assert len(memory) == 1
    assert memory.size_bytes < 3000


@pytest.mark.parametrize("body", ["{}", "[]", "1", '{"messages": []}', '{"messages": "x"}', '{"messages": [1]}', ""])
def test_a_body_without_a_history_is_read_plainly(body: str) -> None:
    memory = BodyMemory()
    assert outcome(body.encode(), memory) == outcome(body.encode(), None)
    assert len(memory) == 0


def test_threads_share_one_memory() -> None:
    memory, wrong = BodyMemory(400_000), []

    def work(seed: int) -> None:
        for count in range(60):
            body = body_of(count % 20 + 1, "shared" if count % 2 else str(seed))
            if outcome(body, memory) != outcome(body, None):
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
