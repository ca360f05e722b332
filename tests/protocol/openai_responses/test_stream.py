"""What a local reply does beyond the official events, and how an answer begins, waits and ends."""

import json
from typing import Any

import pytest

from prompt.streams import block, call, parameter
from protocol.openai_responses.parsed_answers import IDENTITY, StreamEvents, new_stream, run
from whitedwarf.conversation.events import (
    ArgumentsDelta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import PromptUsage, ReplyIdentity, ResponsesReply
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.carried_thoughts import carried
from whitedwarf.protocol.openai_responses.stream import ResponsesStream

STOP, LENGTH = Finished(FinishReason.STOP, None, 5, 2), Finished(FinishReason.LENGTH, None, 5, 2)
CUSTOM = ResponsesReply(custom_tools=frozenset({"apply_patch", "shell::run"}))
PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"


def whole_call(name: str, arguments: str = "{}", index: int = 0) -> list[Event]:
    start = [ToolCallStarted(index, name), ArgumentsDelta(index, arguments)]
    return [*start, ToolCallFinished(index, name, arguments)]


def told(events: list[Event], reply: ResponsesReply | None = None) -> StreamEvents:
    return new_stream(reply or ResponsesReply()).take(events)


def output(events: list[Event], reply: ResponsesReply | None = None) -> list[Any]:
    items: list[Any] = told(events, reply)[-1]["response"]["output"]
    return items


def types(events: StreamEvents) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_an_answer_begins_once() -> None:
    stream = new_stream(ResponsesReply())
    assert types(stream.begin()) == ["created", "in_progress"]
    assert stream.begin(PromptUsage(7, 2)) == []
    stream.measure(PromptUsage(7, 3))
    usage = stream.take([STOP])[-1]["response"]["usage"]
    assert usage == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }


def test_a_keepalive_is_numbered_and_comes_after_the_beginning() -> None:
    stream = new_stream(ResponsesReply())
    events = [*stream.keepalive(), *stream.keepalive(), *stream.take([TextDelta("a"), STOP])]
    assert events[2] == {"type": "keepalive", "sequence_number": 2}
    assert types(events)[:4] == ["created", "in_progress", "keepalive", "keepalive"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_after_the_end_nothing_comes() -> None:
    for end in ("take", "fail"):
        stream = new_stream(ResponsesReply())
        assert stream.take([STOP]) if end == "take" else stream.fail("no memory")
        assert stream.is_over
        assert stream.take([TextDelta("a"), STOP]) == []
        assert stream.begin() == stream.keepalive() == stream.fail("again") == []


def test_a_failure_before_the_beginning_is_a_whole_stream() -> None:
    events = new_stream(ResponsesReply()).fail("too long", "context_length_exceeded")
    assert types(events) == ["created", "in_progress", "failed"]
    response = events[-1]["response"]
    assert response["status"] == "failed"
    assert response["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert (response["completed_at"], response["usage"], response["output"]) == (None, None, [])


def test_a_failure_ends_no_open_call() -> None:
    stream = new_stream(ResponsesReply())
    stream.take([TextDelta("a"), ToolCallStarted(0, "f"), ArgumentsDelta(0, '{"a": 1')])
    (failed,) = stream.fail("the engine stopped")
    assert failed["response"]["error"]["code"] == "server_error"
    assert [(item["type"], item["status"]) for item in failed["response"]["output"]] == [
        ("message", "completed"),
        ("function_call", "incomplete"),
    ]


def test_thoughts_are_told_as_a_summary_where_the_client_shows_one() -> None:
    events = told([ReasoningDelta("a"), ReasoningDelta("b"), TextDelta("c"), STOP], ResponsesReply(summarizes=True))
    assert types(events) == [
        *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.delta", "reasoning_summary_text.done"),
        *("reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
        *("output_item.done", "completed"),
    ]
    assert events[4] == {
        "type": "response.reasoning_summary_text.delta",
        "delta": "a",
        "item_id": "rs_resp-1_0",
        "output_index": 0,
        "sequence_number": 4,
        "summary_index": 0,
    }
    assert events[-1]["response"]["output"][0] == {
        "type": "reasoning",
        "id": "rs_resp-1_0",
        "status": "completed",
        "content": [],
        "summary": [{"type": "summary_text", "text": "ab"}],
        "encrypted_content": "resp-1-0",
    }


@pytest.mark.parametrize("is_official", [True, False])
def test_thoughts_without_a_summary_are_carried_for_clients_that_keep_no_text(is_official: bool) -> None:
    events = told([ReasoningDelta("a"), ReasoningDelta("b"), STOP], ResponsesReply(is_official=is_official))
    names = [event["item"]["encrypted_content"] for event in events if "item" in event]
    assert [carried(name) for name in names] == ["", "" if is_official else "ab"]


def test_a_thought_cut_off_is_no_answer() -> None:
    events = told([ReasoningDelta("hm"), LENGTH], ResponsesReply(is_thinking=True))
    response = events[-1]["response"]
    assert types(events)[-1] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [(item["type"], item["status"]) for item in response["output"]] == [("reasoning", "incomplete")]


def test_a_refused_answer_says_so() -> None:
    end = Finished(FinishReason.CONTENT_FILTER, None, 1, 0)
    response = told([TextDelta("a"), end])[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})


def test_a_call_is_ended_as_soon_as_it_is_complete() -> None:
    events = told([*whole_call("f")])
    assert types(events)[-2:] == ["function_call_arguments.done", "output_item.done"]
    assert events[-2]["name"] == "f"


def test_only_the_call_that_was_cut_off_is_incomplete() -> None:
    first, second = whole_call("f"), [ToolCallStarted(1, "f"), ArgumentsDelta(1, '{"a": "b')]
    assert [item["status"] for item in output([*first, LENGTH])] == ["completed"]
    items = output([*first, *second, LENGTH])
    assert [(item["status"], item["arguments"]) for item in items] == [("completed", "{}"), ("incomplete", '{"a": "b')]


@pytest.mark.parametrize("end", [STOP, LENGTH])
def test_a_call_that_never_ended_is_incomplete_whatever_the_reason(end: Finished) -> None:
    (item,) = output([ToolCallStarted(0, "f"), ArgumentsDelta(0, '{"a": 1'), end])
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a": 1')
    with pytest.raises(json.JSONDecodeError):
        json.loads(item["arguments"])


def test_a_custom_call_cut_off_is_shown_but_not_ended() -> None:
    cut_off = [ToolCallStarted(0, "apply_patch"), ArgumentsDelta(0, '{"input": "a\\'), LENGTH]
    events = told(cut_off, CUSTOM)
    assert types(events)[2:] == [
        *("output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.delta", "incomplete")
    ]
    (item,) = events[-1]["response"]["output"]
    assert (item["status"], item["input"]) == ("incomplete", "a\\")


def test_a_body_can_be_had_without_the_calls_that_nobody_may_execute() -> None:
    stream, answer = new_stream(ResponsesReply()), ResponsesAnswer()
    answer.take(stream.take([TextDelta("a"), *whole_call("f"), ToolCallStarted(1, "f"), LENGTH]))
    assert stream.unfinished_calls == (1,)
    whole: Any = answer.body()
    assert [item["type"] for item in whole["output"]] == ["message", "function_call", "function_call"]
    body: Any = answer.body(without_calls=stream.unfinished_calls)
    assert [(item["type"], item["status"]) for item in body["output"]] == [
        ("message", "completed"),
        ("function_call", "completed"),
    ]


def test_what_is_said_before_a_call_is_commentary() -> None:
    items = output([TextDelta("a"), *whole_call("f"), TextDelta("b"), STOP])
    assert [item.get("phase") for item in items] == ["commentary", None, "final_answer"]


def test_empty_pieces_open_nothing() -> None:
    assert types(told([ReasoningDelta(""), TextDelta(""), STOP])) == ["created", "in_progress", "completed"]


def test_a_namespaced_tool_is_split() -> None:
    reply = ResponsesReply(namespaces={"multi_agent_v1__spawn": ("multi_agent_v1", "spawn")})
    (item,) = output([*whole_call("multi_agent_v1__spawn"), STOP], reply)
    assert (item["name"], item["namespace"]) == ("spawn", "multi_agent_v1")


def test_a_custom_tool_may_be_in_a_namespace() -> None:
    reply = ResponsesReply(custom_tools=frozenset({"a::b"}), namespaces={"a::b": ("a", "b")})
    (item,) = output([*whole_call("a::b", '{"input": "x"}'), STOP], reply)
    assert (item["type"], item["name"], item["namespace"], item["input"]) == ("custom_tool_call", "b", "a", "x")


@pytest.mark.parametrize("key", ["input", "patch"])
def test_a_patch_comes_back_as_a_custom_call_with_its_plain_text(key: str) -> None:
    text = "I patch.\n\n" + block(call("apply_patch", parameter(key, PATCH)))
    pushes, body = run([["text", text, 9], ["finish", "stop"]], ParseOptions(), CUSTOM)
    events = [event for push in pushes for event in push]
    assert [item["type"] for item in body["output"]] == ["message", "custom_tool_call"]
    assert body["output"][1]["input"] == PATCH
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == PATCH
    assert types(events)[-3:] == ["custom_tool_call_input.done", "output_item.done", "completed"]


def test_any_declared_custom_tool_is_one() -> None:
    (item,) = output([*whole_call("shell::run", '{"input": "ls"}'), STOP], CUSTOM)
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "shell::run", "ls")


def test_a_tool_search_shows_its_arguments_read() -> None:
    reply = ResponsesReply(searches_tools=True)
    (item,) = output([*whole_call("tool_search", '{"query": "x"}'), LENGTH], reply)
    assert (item["status"], item["execution"], item["arguments"]) == ("completed", "client", {"query": "x"})
    (item,) = output([ToolCallStarted(0, "tool_search"), ArgumentsDelta(0, '{"query": "x"'), LENGTH], reply)
    assert (item["status"], item["arguments"]) == ("incomplete", {})


def test_a_call_by_a_model_that_should_have_thought_is_marked() -> None:
    reply = ResponsesReply(is_thinking=True)
    assert output([*whole_call("f"), STOP], reply)[0]["call_id"] == "call_00_ET_*"
    assert output([ReasoningDelta("a"), *whole_call("f"), STOP], reply)[1]["call_id"] == "call_00_*"


def test_calls_have_unguessable_ids_unless_they_are_handed_in() -> None:
    stream = ResponsesStream(IDENTITY, ResponsesReply())
    items = stream.take([*whole_call("f"), *whole_call("f", index=1), STOP])[-1]["response"]["output"]
    assert isinstance(items, list)
    assert len({item["call_id"][8:] for item in items}) == 2
    assert all(len(item["call_id"]) == 32 for item in items)


def test_the_time_of_completion_is_the_clocks() -> None:
    identity = ReplyIdentity("resp-2", "model-x", 10)
    for clock, expected in ((None, 10), (lambda: 12, 12)):
        response: Any = ResponsesStream(identity, ResponsesReply(), clock=clock).take([STOP])[-1]["response"]
        assert (response["created_at"], response["completed_at"]) == (10, expected)


def test_the_requests_settings_are_repeated_and_nothing_else() -> None:
    echo = {"metadata": {"a": "b"}, "store": True, "temperature": 0.5, "id": "forged", "status": "forged", "other": 1}
    response = told([STOP], ResponsesReply(echo=echo))[-1]["response"]
    assert (response["metadata"], response["store"], response["temperature"]) == ({"a": "b"}, True, 0.5)
    assert (response["id"], response["status"]) == ("resp-1", "completed")
    assert "other" not in response


def test_a_namespace_has_a_description() -> None:
    tools = [{"type": "namespace", "name": "a", "description": None, "tools": []}]
    response = told([STOP], ResponsesReply(echo={"tools": tools}))[-1]["response"]
    assert response["tools"][0]["description"] == ""


def test_log_probabilities_are_told_with_their_text(nano: Tokenizer) -> None:
    ids = nano.encode("one two")
    scores = [[-0.5, [[token, -0.5]]] for token in ids]
    pushes, body = run([["tokens", ids, scores], ["finish", "stop"]], ParseOptions(), ResponsesReply(), nano)
    part = body["output"][0]["content"][0]
    assert "".join(entry["token"] for entry in part["logprobs"]) == part["text"] == "one two"
    events = [event for push in pushes for event in push]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [entry for event in deltas for entry in event["logprobs"]] == part["logprobs"]


def test_a_thought_cut_off_by_the_parser_is_no_answer_either() -> None:
    options = ParseOptions(start=ParseStart.REASONING)
    _, body = run([["text", "let me see", 3], ["finish", "length"]], options, ResponsesReply(is_thinking=True))
    assert [item["type"] for item in body["output"]] == ["reasoning"]
    assert body["status"] == "incomplete"
