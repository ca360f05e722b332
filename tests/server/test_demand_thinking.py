"""Thoughts over a real server, in all three dialects, streamed and whole (demand.md P08-P11, E0)."""

from typing import Any

import pytest

from fakes.scripted_server import Served, serving
from prompt.streams import D, block, call, parameter
from protocol.scripted_dialects import Script, Shown
from server.demand_answers import (
    answer,
    asked,
    in_each_dialect,
    line,
    prompt_ids,
    prompt_text,
    refused,
    shown,
)

RUN = call("run", parameter("cmd", "ls -la"))
TOOLS = {"chat": "messages", "messages": "messages", "responses": "input"}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]


@in_each_dialect
def test_an_answer_cut_while_thinking_is_a_thought_and_nothing_else(dialect: str) -> None:
    """P08: `max_tokens` 5 and a thought that is never closed."""
    key = "max_output_tokens" if dialect == "responses" else "max_tokens"
    thought = line(["I wonder and wonder about all of these things"])
    told = answer(Script(dialect, thinks=True, members={key: 5}), thought)
    assert (told.shown.content, told.shown.calls, told.shown.finish) == ("", (), "length")
    assert told.shown.reasoning != ""
    assert "I wonder and wonder about all of these things".startswith(told.shown.reasoning)
    if dialect == "chat":
        assert not told.body["choices"][0]["message"]["content"]
    if dialect == "messages":
        assert [one["type"] for one in told.body["content"]] == ["thinking"]
        assert told.body["stop_reason"] == "max_tokens"


WAYS: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}},
    {"reasoning_effort": "none"},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"thinking": False}},
]


@in_each_dialect
def test_every_way_to_switch_thinking_off_is_followed(dialect: str, reader: Served) -> None:
    """P09: all of them give one prompt, and it is not the one that thinks."""
    expected = prompt_ids(reader, Script(dialect))
    with serving(line(["x"])) as served:
        for way in WAYS:
            unsaid = {"thinking": None, "reasoning": None}
            assert prompt_ids(served, Script(dialect, members=unsaid | way)) == expected, way
        assert prompt_ids(served, Script(dialect, thinks=True)) != expected


@in_each_dialect
def test_a_request_that_says_nothing_of_thinking_thinks(dialect: str, reader: Served) -> None:
    """P09: absent is what the policy of a local server says: it thinks, in every dialect alike."""
    said_nothing = Script(dialect, members={"thinking": None, "reasoning": None})
    assert prompt_ids(reader, said_nothing) == prompt_ids(reader, Script(dialect, thinks=True))


@in_each_dialect
@pytest.mark.parametrize(
    ("unknown", "known"),
    [
        ({"thinking": {"type": "perhaps"}}, "disabled"),
        ({"reasoning_effort": "very"}, "none"),
        ({"enable_thinking": "perhaps"}, "true"),
    ],
    ids=str,
)
def test_an_unknown_way_to_think_is_refused_with_the_known_ones(
    dialect: str, unknown: dict[str, Any], known: str, reader: Served
) -> None:
    """P09: 400, never silence."""
    assert known in refused(reader, Script(dialect, members=unknown))["message"]


def tool_turn(dialect: str, reasoning: dict[str, Any] | None) -> Script:
    """Asked, thought, called and told. `reasoning` is a member of Chat's message, a block or item elsewhere."""
    match dialect:
        case "chat":
            function = {"name": "run", "arguments": '{"cmd": "ls"}'}
            calls = [{"id": "c1", "type": "function", "function": function}]
            said = {"role": "assistant", "content": None, "tool_calls": calls, **(reasoning or {})}
            turn = [said, {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}]
        case "messages":
            use = {"type": "tool_use", "id": "c1", "name": "run", "input": {"cmd": "ls"}}
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}
            blocks = [reasoning, use] if reasoning else [use]
            turn = [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        case _:
            called = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"cmd": "ls"}'}
            told = {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}
            turn = [reasoning, called, told] if reasoning else [called, told]
    return Script(dialect, thinks=True, members={TOOLS[dialect]: [*ASKED, *turn]})


REASONED: dict[str, Script] = {
    "chat": tool_turn("chat", {"reasoning_content": "R4"}),
    "chat's alias": tool_turn("chat", {"reasoning": "R4"}),
    "messages": tool_turn("messages", {"type": "thinking", "thinking": "R4", "signature": "s"}),
    "responses": tool_turn(
        "responses", {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "R4"}]}
    ),
}


@pytest.mark.parametrize("name", REASONED)
def test_the_reasoning_of_a_tool_turn_is_in_the_next_prompt(name: str, reader: Served) -> None:
    """P10: inside the assistant's turn, before its call."""
    prompt = prompt_text(reader, REASONED[name])
    assert "<think>R4</think>" in prompt.partition("<｜Assistant｜>")[2].partition(f"<{D}tool_calls>")[0]


@in_each_dialect
def test_a_tool_turn_without_its_reasoning_is_no_error(dialect: str, reader: Served) -> None:
    """P10: 200, and the empty thought of the official encoder."""
    prompt = prompt_text(reader, tool_turn(dialect, None))
    assert prompt == prompt_text(reader, REASONED[dialect]).replace("<think>R4</think>", "<think></think>")


def test_a_thinking_block_is_signed_and_may_come_back_or_not() -> None:
    """P11: start, deltas, one signature, stop; then replayed verbatim, and left out."""
    script = Script("messages", thinks=True)
    lines = [line(["hm", " hm", "</think>", "Looking.\n\n" + block(RUN)])]
    told = answer(script, *lines)
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    events = [event for event in told.events if event["type"] not in ("ping", "message_start")]
    assert events[0] == {"type": "content_block_start", "index": 0, "content_block": thinking}
    first = [event for event in events if event.get("index") == 0]
    deltas = [event["delta"]["type"] for event in first[1:-1]]
    assert (set(deltas[:-1]), deltas[-1]) == ({"thinking_delta"}, "signature_delta")
    assert first[-1]["type"] == "content_block_stop"
    assert events.index(first[-1]) == len(first) - 1
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use"]
    assert told.body["content"][0]["signature"]
    (use,) = [one for one in told.body["content"] if one["type"] == "tool_use"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "a.txt"}]}
    with serving(line(["</think>", "Done."])) as served:
        for blocks in (told.body["content"], told.body["content"][1:]):
            history = [*ASKED, {"role": "assistant", "content": blocks}, result]
            again = asked(served, Script("messages", thinks=True, members={"messages": history}))
            assert again.shown == Shown(content="Done.")


STRAYS = ["<think>", "</think>", "<｜User｜>", "<｜Assistant｜>", "<｜System｜>"]


@in_each_dialect
@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("stray", STRAYS)
def test_control_tokens_out_of_place_are_not_told(dialect: str, thinks: bool, stray: str) -> None:
    """E0: no markup in any field of a client, with a control token as one token and spelt in letters."""
    told = shown(Script(dialect, thinks=thinks), line([f"one {stray}two"]))
    assert told.reasoning + told.content == "one two"
