"""Fields of a body, against reading all of it."""

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.json_spans import finished_now
from whitedwarf.supervisor.wishes import keep_alive_s, named_model, wants_stream


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["stream", "model", "keep_alive", "messages", '"stream": true'])
    return st.dictionaries(names, inner | st.just(True) | st.sampled_from(["a", '"model":"a"', "10m", -1]), max_size=5)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | objects(inner),
    max_leaves=10,
)


@given(objects(values), st.booleans(), st.sampled_from([None, 1]))
def test_fields_are_found_where_they_are_and_nowhere_else(
    body: dict[str, Any], ascii: bool, indent: int | None
) -> None:
    data = json.dumps(body, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")
    assert finished_now(wants_stream(data)) == (body.get("stream") is True)
    model = body.get("model")
    assert finished_now(named_model(data, {"a", "b"})) == (model if model in ("a", "b") else None)
    try:
        seconds = finished_now(keep_alive_s(data))
    except UsageError:
        assert body["keep_alive"] is not None
    else:
        assert (seconds is None) == (body.get("keep_alive") is None)


@given(st.binary())
def test_bytes_that_are_no_json_want_nothing(body: bytes) -> None:
    assert finished_now(wants_stream(b'"stream": true ' + body)) is False
    assert finished_now(named_model(b'"model": "a" ' + body, {"a"})) is None
    assert finished_now(keep_alive_s(b'"keep_alive": 1 ' + body)) is None


def test_names_may_be_escaped() -> None:
    assert finished_now(named_model(b'{"model": "\\u0061"}', {"a"})) == "a"


@pytest.mark.parametrize(("text", "seconds"), [("1h2m3s", 3723), ("250ms", 0.25), ("-5m", -300), ("+3", 3), (" 7 ", 7)])
def test_durations_are_those_of_ollama(text: str, seconds: float) -> None:
    assert finished_now(keep_alive_s(json.dumps({"keep_alive": text}).encode())) == seconds


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"keep_alive": "1" * 60_000 + "x"}).encode(),
        json.dumps({"keep_alive": "1" * 300_000 + "x"}).encode(),
        b'{"keep_alive":[' + b"[]," * 2_000_000 + b"[]]}",
        b'{"model":"' + b"a" * 10_000_000,
        b'{"model":"' + rb"\n" * 5_000_000 + b'"}',
        b"{" + rb'"model":"\u0062",' * 500_000 + b'"keep_alive":1}',
        b'{"stream":true,"x":' + b"[" * 10_000_000,
        b'{"stream":true,' + b'"k":1,' * 200_000 + b'"keep_alive":1}',
        b'{"stream":true,' + b"".join(b'"%d":1,' % number for number in range(200_000)) + b'"keep_alive":1}',
    ],
    ids=["digits", "more digits", "lists", "no end", "escapes", "mentions", "depth", "one member", "members"],
)
def test_no_body_holds_up_those_who_wait(body: bytes) -> None:
    began_s = time.process_time()
    longest_s = 0.0
    for wish in (wants_stream(body), named_model(body, {"a"}), keep_alive_s(body)):
        with contextlib.suppress(StopIteration, UsageError):
            while True:
                began_s = time.process_time()
                next(wish)
                longest_s = max(longest_s, time.process_time() - began_s)
        longest_s = max(longest_s, time.process_time() - began_s)
    assert longest_s < 0.5


@pytest.mark.parametrize("said", ["1e999", "9" * 400, '"1000000000h"', '"' + "9" * 60 + '"', "-1e999", "-" + "9" * 400])
def test_for_ever_is_a_number_that_can_be_told(said: str) -> None:
    assert finished_now(keep_alive_s(b'{"keep_alive":%s}' % said.encode())) == (-1e9 if "-" in said else 1e9)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_fields_of_a_large_body_are_found_too(mark: bytes) -> None:
    body = mark + json.dumps({"x": ["y" * 100] * 1000, "stream": True, "model": "a", "keep_alive": "10m"}).encode()
    assert finished_now(wants_stream(body)) is True
    assert finished_now(named_model(body, {"a"})) == "a"
    assert finished_now(keep_alive_s(body)) == 600
