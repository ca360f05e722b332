from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from prompt.streams import D, block, call, parameter
from protocol.answer_runs import Told, chat_body, chat_stream, run
from protocol.event_sequences import chat_deltas, event_sequences, without_repairs
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
from whitedwarf.protocol.converted import ChatReply, PromptUsage
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.openai_chat.stream import ChatStream
from whitedwarf.protocol.policy import OFFICIAL

END = Finished(FinishReason.STOP, None, 5, 2)
THINKING = ChatReply(is_thinking=True)


def told(reply: ChatReply, *texts: str, reason: str = "stop", **options: Any) -> tuple[list[Told], ChatStream]:
    stream = chat_stream(reply)
    chunks = [["ready", {}], *(["text", text, 1] for text in texts), ["finish", reason]]
    return run(chunks, ParseOptions(**options), None, stream).told, stream


def deltas(chunks: list[Told]) -> list[Any]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def test_usage_is_on_the_last_chunk() -> None:
    stream = chat_stream(THINKING)
    stream.begin(PromptUsage(10, 4), "fp_1")
    (last,) = stream.take([END])
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["system_fingerprint"] == "fp_1"
    assert last["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
        "prompt_cache_hit_tokens": 4,
        "prompt_cache_miss_tokens": 6,
    }


def test_usage_is_not_named_in_a_stream_that_nobody_asked_it_of_before_the_last_chunk() -> None:
    body = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "Hi"}]}
    named = {None: [True, True], False: [False, True], True: [True, True]}
    for include_usage, expected in named.items():
        asked = {} if include_usage is None else {"stream": True, "stream_options": {"include_usage": include_usage}}
        stream = chat_stream(convert(body | asked, OFFICIAL).reply)
        assert ["usage" in chunk for chunk in stream.begin() + stream.take([END])] == expected


def test_usage_comes_in_a_chunk_of_its_own_where_it_was_asked_for() -> None:
    stream = chat_stream(ChatReply(usage_chunk=True))
    stream.begin()
    last, usage = stream.take([END])
    assert (last["choices"][0]["finish_reason"], last["usage"]) == ("stop", None)
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 5
    assert chat_body([last, usage])["usage"] == usage["usage"]


def test_what_turned_out_about_the_prompt_later_is_what_usage_tells() -> None:
    stream = chat_stream(ChatReply())
    stream.begin()
    stream.measure(PromptUsage(100, 96))
    (last,) = stream.take([END])
    assert last["usage"]["prompt_cache_hit_tokens"] == 96


def test_a_completed_call_is_not_told_again() -> None:
    stream = chat_stream(ChatReply())
    stream.take([ToolCallStarted(0, "f"), ArgumentsDelta(0, "{}")])
    assert stream.unfinished_calls == (0,)
    assert stream.take([ToolCallFinished(0, "f", "{}")]) == []
    assert stream.unfinished_calls == ()


@given(event_sequences(), st.booleans())
def test_repairs_leave_no_trace(events: list[Event], is_thinking: bool) -> None:
    reply = ChatReply(is_thinking)
    assert chat_stream(reply).take(events) == chat_stream(reply).take(without_repairs(events))


def test_a_custom_call_has_its_input_as_plain_text() -> None:
    patch = '*** Begin Patch\n+ "é🦔"\n*** End Patch'
    written = block(call("apply_patch", parameter("input", patch)), call("f", parameter("a", "1", is_string=False)))
    chunks, _ = told(ChatReply(custom_tools=frozenset({"apply_patch"})), *written)
    started, *pieces = [delta["tool_calls"][0] for delta in deltas(chunks) if "tool_calls" in delta]
    assert started == {
        "index": 0,
        "id": "call_00_*",
        "type": "custom",
        "custom": {"name": "apply_patch", "input": ""},
    }
    assert "".join(piece["custom"]["input"] for piece in pieces if "custom" in piece) == patch
    assert chat_body(chunks)["choices"][0]["message"]["tool_calls"] == [
        {"index": 0, "id": "call_00_*", "type": "custom", "custom": {"name": "apply_patch", "input": patch}},
        {"index": 1, "id": "call_01_*", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
    ]


def test_the_input_of_a_custom_call_comes_live() -> None:
    stream = chat_stream(ChatReply(custom_tools=frozenset({"sh"})))
    stream.begin()
    stream.take([ToolCallStarted(0, "sh"), ArgumentsDelta(0, '{"input": "')])
    (chunk,) = stream.take([ArgumentsDelta(0, "ls\\n")])
    assert chunk["choices"][0]["delta"] == {"tool_calls": [{"index": 0, "custom": {"input": "ls\n"}}]}


def test_a_failed_answer_ends_with_one_error_and_nothing_more() -> None:
    stream = chat_stream(ChatReply())
    stream.begin()
    assert stream.fail("the engine stopped") == [
        {
            "error": {
                "message": "the engine stopped",
                "type": "server_error",
                "param": None,
                "code": "server_error",
            }
        }
    ]
    assert stream.is_over
    assert stream.fail("again") == []
    assert stream.keepalive() == []
    assert stream.take([TextDelta("late"), END]) == []


def test_an_answer_that_has_ended_cannot_fail() -> None:
    stream = chat_stream(ChatReply())
    stream.begin()
    stream.take([END])
    assert stream.fail("too late") == []


def test_a_keepalive_is_a_chunk_without_choices() -> None:
    stream = chat_stream(ChatReply())
    (chunk,) = stream.keepalive()
    assert (chunk["object"], chunk["choices"], chunk["usage"]) == ("chat.completion.chunk", [], None)


def test_p08_a_thought_that_was_cut_off_is_no_answer() -> None:
    chunks, _ = told(THINKING, "hm, so", reason="length", start=ParseStart.REASONING)
    choice = chat_body(chunks)["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "", "reasoning_content": "hm, so"}
    assert choice["finish_reason"] == "length"


def test_p19_no_piece_of_a_stop_string_is_told() -> None:
    pieces = ("abc", "EN", "D_", "HERE", "xyz")
    stream = chat_stream(ChatReply())
    chunks = run([["text", piece, 1] for piece in pieces], ParseOptions(stop_strings=("END_HERE",)), None, stream).told
    assert chat_deltas(chunks) == [("content", "abc")]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    missed, _ = told(ChatReply(), "abc", "EN", "D_", "THERE", stop_strings=("END_HERE",))
    assert chat_deltas(missed) == [("content", "abcEND_THERE")]


def test_p20_characters_split_over_tokens_are_whole(nano: Tokenizer) -> None:
    ids = [*nano.encode("ok "), *bytes_ids(nano, "🦔漢")]
    stream = chat_stream(ChatReply())
    chunks = run([["ready", {}], *(["tokens", [one]] for one in ids)], ParseOptions(), nano, stream).told
    assert chat_deltas(chunks) == [("content", "ok 🦔漢")]
    invalid = [bytes_ids(nano, "🦔")[0], *nano.encode("x"), bytes_ids(nano, "漢")[0]]
    stream = chat_stream(ChatReply())
    chunks = run([["ready", {}], *(["tokens", [one]] for one in invalid)], ParseOptions(), nano, stream).told
    assert chat_deltas(chunks) == [("content", "\ufffdx\ufffd")]


def bytes_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """One id for each byte."""
    by_byte = {tokenizer.token_bytes(token): token for token in range(tokenizer.vocab_size)}
    return [by_byte[bytes([byte])] for byte in text.encode()]


def test_p21_a_truncated_call_is_not_closed_and_not_in_the_body() -> None:
    whole = call("f", parameter("a", "1", is_string=False))
    cut = f'<{D}invoke name="sh">\n<{D}parameter name="cmd" string="true">rm -rf /tmp/x'
    chunks, stream = told(ChatReply(), f"<{D}tool_calls>\n{whole}{cut}", reason="length")
    assert chat_deltas(chunks)[-1] == ("arguments 1", '{"cmd": "rm -rf /tmp/x')
    assert stream.unfinished_calls == (1,)
    choice = chat_body(chunks, stream.unfinished_calls)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["f"]


def test_p21_without_its_only_call_an_answer_has_none() -> None:
    cut = f'<{D}tool_calls>\n<{D}invoke name="sh">\n<{D}parameter name="cmd" string="true">rm'
    chunks, stream = told(ChatReply(), cut, reason="length")
    assert "tool_calls" not in chat_body(chunks, stream.unfinished_calls)["choices"][0]["message"]
    assert "tool_calls" in chat_body(chunks)["choices"][0]["message"]  # officially it stays


def test_a_call_after_no_thought_is_marked_in_its_id() -> None:
    chunks, _ = told(THINKING, "</think>", block(call("f")), start=ParseStart.REASONING)
    thoughtful, _ = told(THINKING, "hm</think>", block(call("f")), start=ParseStart.REASONING)
    assert chat_body(chunks)["choices"][0]["message"]["tool_calls"][0]["id"] == "call_00_ET_*"
    assert chat_body(thoughtful)["choices"][0]["message"]["tool_calls"][0]["id"] == "call_00_*"


def test_a_continued_answer_has_no_thinking_to_tell() -> None:
    stream = chat_stream(ChatReply(is_thinking=True, continues_answer=True))
    chunks = stream.begin() + stream.take([TextDelta("b"), END])
    assert deltas(chunks)[0] == {"role": "assistant", "content": "", "reasoning_content": None}
    assert "reasoning_content" not in chat_body(chunks)["choices"][0]["message"]


def test_thoughts_come_before_the_answer_in_fields_of_their_own() -> None:
    stream = chat_stream(THINKING)
    chunks = stream.begin() + stream.take([ReasoningDelta("hm"), TextDelta("yes"), END])
    assert deltas(chunks) == [
        {"role": "assistant", "content": None, "reasoning_content": ""},
        {"content": None, "reasoning_content": "hm"},
        {"content": "yes", "reasoning_content": None},
        {"content": "", "reasoning_content": None},
    ]
