from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prompt.streams import D, block, call, parameter
from protocol.answer_runs import Told, messages_body, messages_stream, run
from protocol.event_sequences import event_sequences, messages_deltas, without_repairs
from whitedwarf.conversation.events import Event, Finished, FinishReason, TextDelta
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.protocol.anthropic.stream import MessagesStream, sse_name
from whitedwarf.protocol.converted import MessagesReply, PromptUsage

END = Finished(FinishReason.STOP, None, 5, 2)


def told(reply: MessagesReply, *texts: str, reason: str = "stop", **options: Any) -> tuple[list[Told], MessagesStream]:
    stream = messages_stream(reply)
    chunks = [["ready", {}], *(["text", text, 1] for text in texts), ["finish", reason]]
    return run(chunks, ParseOptions(**options), None, stream).told, stream


def test_p11_a_thinking_block_is_signed_before_it_stops() -> None:
    events, _ = told(MessagesReply(is_thinking=True), "hm</think>", "yes", start=ParseStart.REASONING)
    assert [event["type"] for event in events] == [
        *("message_start", "content_block_start", "ping", "content_block_delta", "content_block_delta"),
        *("content_block_stop", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert events[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert events[4]["delta"] == {"type": "signature_delta", "signature": "resp-1"}
    assert messages_body(events)["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "resp-1"},
        {"type": "text", "text": "yes"},
    ]


def test_the_signature_is_the_one_that_was_set() -> None:
    events, _ = told(MessagesReply(True, "sig"), "hm</think>yes", start=ParseStart.REASONING)
    assert messages_body(events)["content"][0]["signature"] == "sig"


def test_p08_a_thought_that_was_cut_off_is_a_thinking_block_only() -> None:
    events, _ = told(MessagesReply(is_thinking=True), "hm, so", reason="length", start=ParseStart.REASONING)
    body = messages_body(events)
    assert body["content"] == [{"type": "thinking", "thinking": "hm, so", "signature": "resp-1"}]
    assert body["stop_reason"] == "max_tokens"


def test_p19_the_stop_string_is_named_and_not_told() -> None:
    stream = messages_stream(MessagesReply())
    pieces = [["text", piece, 1] for piece in ("abc", "EN", "D_", "HERE", "xyz")]
    events = run(pieces, ParseOptions(stop_strings=("END_HERE",)), None, stream).told
    body = messages_body(events)
    assert body["content"] == [{"type": "text", "text": "abc"}]
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END_HERE")


def test_p21_a_truncated_call_is_not_closed_and_not_in_the_body() -> None:
    whole = call("f", parameter("a", "1", is_string=False))
    cut = f'<{D}invoke name="sh">\n<{D}parameter name="cmd" string="true">rm -rf /tmp/x'
    events, stream = told(MessagesReply(), f"hi<{D}tool_calls>\n{whole}{cut}", reason="length")
    assert messages_deltas(events)[-1] == ("2 partial_json", '{"cmd": "rm -rf /tmp/x')
    body = messages_body(events, stream.unfinished_calls)
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]
    assert body["content"][1]["input"] == {"a": 1}
    assert body["stop_reason"] == "max_tokens"
    assert messages_body(events)["content"][2]["input"] == {}  # officially it stays, without input


def test_a_call_without_parameters_has_an_empty_input() -> None:
    events, _ = told(MessagesReply(), block(call("f")))
    body = messages_body(events)
    assert (body["content"][0]["input"], body["stop_reason"]) == ({}, "tool_use")


def test_input_tokens_are_those_that_were_not_cached() -> None:
    stream = messages_stream(MessagesReply())
    (start,) = stream.begin(PromptUsage(10, 4))
    assert start["message"]["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 0,
        "service_tier": "standard",
    }
    stream.measure(PromptUsage(10, 8))
    delta, _ = stream.take([END])
    assert delta["usage"]["input_tokens"] == 2
    assert delta["usage"]["output_tokens"] == 5


@given(event_sequences(), st.booleans())
def test_repairs_leave_no_trace(events: list[Event], is_thinking: bool) -> None:
    reply = MessagesReply(is_thinking)
    assert messages_stream(reply).take(events) == messages_stream(reply).take(without_repairs(events))


def test_a_failed_answer_ends_with_one_error_and_nothing_more() -> None:
    stream = messages_stream(MessagesReply())
    stream.begin()
    stream.take([TextDelta("hi")])
    (error,) = stream.fail("the engine stopped", "overloaded_error")
    assert error == {"type": "error", "error": {"type": "overloaded_error", "message": "the engine stopped"}}
    assert sse_name(error) == "error"
    assert stream.is_over
    assert stream.fail("again") == []
    assert stream.keepalive() == []
    assert stream.take([TextDelta("late"), END]) == []


def test_a_keepalive_is_a_ping_even_before_the_start() -> None:
    assert messages_stream(MessagesReply()).keepalive() == [{"type": "ping"}]


def test_a_call_after_no_thought_is_marked_in_its_id() -> None:
    events, _ = told(MessagesReply(is_thinking=True), "</think>", block(call("f")), start=ParseStart.REASONING)
    assert messages_body(events)["content"][1]["id"] == "call_00_ET_*"
