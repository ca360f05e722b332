"""Tool calls that models spoil, over a real server, in all three dialects, streamed and whole (demand.md P01-P07)."""

import json
from typing import Any

import httpx2
import pytest

from fakes.gates import PATIENCE_S
from fakes.scripted_server import Served, serving
from prompt.streams import D, block, call, parameter
from protocol.scripted_dialects import Script, Shown
from server.demand_answers import (
    PATHS,
    answer,
    cut_anywhere,
    events_of,
    in_each_dialect,
    line,
    prompt_ids,
    shown,
    whole_and_in_characters,
)

RUN = call("run", parameter("cmd", "ls -la"))
RAN = (("run", '{"cmd": "ls -la"}'),)
MAKE = block(call("run", parameter("cmd", "make 2>&1")))
MADE = Shown(calls=(("run", '{"cmd": "make 2>&1"}'),), finish="tool_calls")


@in_each_dialect
def test_a_misspelt_opener_is_a_call_and_is_counted(dialect: str) -> None:
    """P01: `toolcalls` in place of `tool_calls`, as one piece and one character at a time."""
    script, written = Script(dialect), block(RUN, opener="toolcalls")
    assert shown(script, *whole_and_in_characters(written)) == Shown(calls=RAN, finish="tool_calls")
    with serving(line([written])) as served:
        httpx2.post(served.url + PATHS[dialect], json=script.body(), timeout=PATIENCE_S).raise_for_status()
        metrics = httpx2.get(served.url + "/metrics", timeout=PATIENCE_S).text
    assert 'whitedwarf_repairs_total{kind="misspelt_opener"} 1.0' in metrics.splitlines()


@in_each_dialect
def test_a_closing_tag_in_pieces_is_in_no_argument(dialect: str) -> None:
    """P02: the pieces of the report."""
    before, after = MAKE.split(f"</{D}parameter>", 1)
    told = answer(Script(dialect), line([before, "</", D, "parameter", ">", after]))
    assert told.shown == MADE
    assert not any("<" in delta for delta in argument_deltas(told.events))


@pytest.mark.slow
def test_a_closing_tag_in_any_two_pieces_is_in_no_argument() -> None:
    """P02: every split position."""
    lines = cut_anywhere(MAKE)
    assert shown(Script("chat"), *lines) == MADE
    with serving(*lines) as served, httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        for _ in lines:
            streamed = client.post(PATHS["messages"], json={**Script("messages").body(), "stream": True})
            deltas = argument_deltas(events_of(streamed, "messages"))
            assert json.loads("".join(deltas)) == {"cmd": "make 2>&1"}
            assert not any("<" in delta for delta in deltas)


def argument_deltas(events: list[dict[str, Any]]) -> list[str]:
    """What is told of arguments, in any dialect, piece by piece."""
    deltas: list[str] = []
    for event in events:
        for choice in event.get("choices", ()):
            deltas += [one["function"].get("arguments", "") for one in choice["delta"].get("tool_calls", ())]
        if event.get("type") == "content_block_delta":
            deltas.append(event["delta"].get("partial_json", ""))
        if event.get("type") == "response.function_call_arguments.delta":
            deltas.append(event["delta"])
    return deltas


@in_each_dialect
def test_an_empty_block_does_not_eat_the_answer(dialect: str) -> None:
    """P03: what comes after the block is told, and the turn ends as an answer."""
    lines = whole_and_in_characters(f"Before. <{D}tool_calls></{D}tool_calls> After.")
    assert shown(Script(dialect), *lines) == Shown(content="Before.  After.")


@in_each_dialect
@pytest.mark.parametrize("tail", ["", "</think>"], ids=["never closed", "closed after it"])
def test_a_call_in_an_open_thought_is_a_call(dialect: str, tail: str) -> None:
    """P04: the model forgets `</think>`, or puts it behind the block."""
    lines = whole_and_in_characters("I should list files.\n\n" + block(RUN) + tail)
    expected = Shown(reasoning="I should list files.", calls=RAN, finish="tool_calls")
    assert shown(Script(dialect, thinks=True), *lines) == expected


NO_TOOLS: dict[str, Any] = {"chat": "none", "messages": {"type": "none"}, "responses": "none"}


@in_each_dialect
def test_tools_that_may_not_be_called_are_not_offered_and_not_told(dialect: str, reader: Served) -> None:
    """P05: `tool_choice: none` gives the prompt of a request without tools, and markup is never shown."""
    forbidden = Script(dialect, tools=("run", "pick"), members={"tool_choice": NO_TOOLS[dialect]})
    assert prompt_ids(reader, forbidden) == prompt_ids(reader, Script(dialect, tools=()))
    assert prompt_ids(reader, forbidden) != prompt_ids(reader, Script(dialect, tools=("run", "pick")))
    lines = whole_and_in_characters("Hi. " + block(RUN) + " Bye.")
    assert shown(forbidden, *lines) == Shown(content="Hi.  Bye.")


@in_each_dialect
def test_parameters_have_the_types_that_were_written(dialect: str) -> None:
    """P06: numbers stay strings where `string="true"` says so, and JSON is JSON where it says false."""
    note = call("note_add", parameter("text", "007"), parameter("pinned", "true", is_string=False))
    ids, opts = parameter("ids", "[1, 2]", is_string=False), parameter("opts", '{"k":null}', is_string=False)
    written = block(note, call("pick", ids, opts), call("run", parameter("cmd", '{"a":1}')))
    told = shown(Script(dialect), *whole_and_in_characters(written))
    assert [(name, json.loads(arguments)) for name, arguments in told.calls] == [
        ("note_add", {"text": "007", "pinned": True}),
        ("pick", {"ids": [1, 2], "opts": {"k": None}}),
        ("run", {"cmd": '{"a":1}'}),
    ]


@in_each_dialect
@pytest.mark.parametrize("value", ["oops", "[1, 2", "NaN"])
def test_a_value_that_is_no_json_is_told_as_a_string(dialect: str, value: str) -> None:
    """P06: the documented fallback, never a crash."""
    lines = whole_and_in_characters(block(call("pick", parameter("ids", value, is_string=False))))
    assert shown(Script(dialect), *lines).calls == (("pick", json.dumps({"ids": value})),)


ODD = {"ship to": "two\nlines", " string= x ": "漢字", "": "漢\n"}


@in_each_dialect
def test_odd_parameter_names_come_whole(dialect: str) -> None:
    """P07: whole and one character at a time."""
    written = block(call("run", *(parameter(name, value) for name, value in ODD.items())))
    told = shown(Script(dialect), *whole_and_in_characters(written))
    assert [(name, json.loads(arguments)) for name, arguments in told.calls] == [("run", ODD)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_parameter_names_come_whole_in_any_two_pieces(name: str) -> None:
    """P07: each two-way split."""
    told = shown(Script("responses"), *cut_anywhere(block(call("run", parameter(name, ODD[name])))))
    assert json.loads(told.calls[0][1]) == {name: ODD[name]}


@in_each_dialect
def test_a_call_that_was_cut_is_no_call(dialect: str) -> None:
    """P21: `max_tokens` ends inside a value: the end is told, no call can be run, no fragment is closed."""
    cut = block(call("run", parameter("cmd", "rm -rf /tmp/x"))).partition("/tmp")[0]
    told = answer(Script(dialect), *whole_and_in_characters(cut, finish="length"))
    assert told.shown.finish == "length"
    assert [name for name, _ in told.shown.calls] == ["run"]  # begun in the stream; add_up saw that it is not closed
    assert "rm -rf" not in json.dumps(told.body) or told.body["status"] == "incomplete"
    if dialect == "responses":
        assert told.events[-1]["type"] == "response.incomplete"


@in_each_dialect
def test_the_request_s_own_limit_cuts_a_call_too(dialect: str) -> None:
    """P21: the limit is the client's."""
    key = "max_output_tokens" if dialect == "responses" else "max_tokens"
    said = line([block(call("run", parameter("cmd", "one two three four five six")))])
    told = answer(Script(dialect, members={key: 30}), said)
    assert told.shown.finish == "length"
    assert not any(json_object(arguments) for _, arguments in told.shown.calls)


def json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@in_each_dialect
def test_a_call_that_never_ends_is_ended_and_logged(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """P35: a block that repeats one line for ever ends with `length`; the log has a word for it."""
    opened = f'<{D}tool_calls>\n<{D}invoke name="run">\n<{D}parameter name="cmd" string="true">'
    endless = line([opened, *["echo again\n"] * 600], finish="length")
    with caplog.at_level("INFO", logger="whitedwarf"):
        script = Script(dialect, members={} if dialect != "messages" else {"max_tokens": 3000})
        told = answer(script, endless, max_call_tokens=200)
    assert told.shown.finish == "length"
    assert told.shown.calls[0][1].count("again") < 200
    ended = [record for record in caplog.records if record.getMessage() == "request_ended"]
    assert {getattr(record, "repairs", "") for record in ended} == {"runaway_call"}


@in_each_dialect
def test_a_stray_byte_between_tags_freezes_nothing(dialect: str) -> None:
    """P35: whatever is between the tags, the call is read."""
    lines = whole_and_in_characters(block("\x00\ufffd", RUN, "\x01"))
    assert shown(Script(dialect), *lines).calls == RAN
