"""Fields of a body, against reading all of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
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
    assert wants_stream(data) == (body.get("stream") is True)
    model = body.get("model")
    assert named_model(data, {"a", "b"}) == (model if model in ("a", "b") else None)
    try:
        seconds = keep_alive_s(data)
    except UsageError:
        assert body["keep_alive"] is not None
    else:
        assert (seconds is None) == (body.get("keep_alive") is None)


@given(st.binary())
def test_bytes_that_are_no_json_want_nothing(body: bytes) -> None:
    assert wants_stream(b'"stream": true ' + body) is False
    assert named_model(b'"model": "a" ' + body, {"a"}) is None
    assert keep_alive_s(b'"keep_alive": 1 ' + body) is None


def test_names_may_be_escaped() -> None:
    assert named_model(b'{"model": "\\u0061"}', {"a"}) == "a"


@pytest.mark.parametrize(("text", "seconds"), [("1h2m3s", 3723), ("250ms", 0.25), ("-5m", -300), ("+3", 3), (" 7 ", 7)])
def test_durations_are_those_of_ollama(text: str, seconds: float) -> None:
    assert keep_alive_s(json.dumps({"keep_alive": text}).encode()) == seconds
