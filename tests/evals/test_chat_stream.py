"""Reading Chat Completions streams: in any split, thoughts in either place, errors told."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.evals.answer import Answer
from whitedwarf.evals.budget import CloseKind
from whitedwarf.evals.chat_stream import ChatReader
from whitedwarf.web.endpoint.complaint import told_error
from whitedwarf.web.endpoint.event_lines import LONGEST_LINE, EventLines, StreamError

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["<think>", "</think>", "<", " "]))


def event(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def read(*events: dict[str, Any], thinks: str = "high") -> Answer:
    answer = Answer()
    reader = ChatReader(answer, thinks)
    for one in events:
        reader.take(json.dumps(one))
    reader.finish()
    return answer


def content(*texts: str) -> Answer:
    return read(*(event(content=text) for text in texts), event("stop"))


def test_reasoning_content_is_thoughts_and_closes_where_the_answer_begins() -> None:
    answer = read(
        event(role="assistant", content=None, reasoning_content=""),
        event(reasoning_content="Hm. "),
        event(reasoning_content="So.", content=None),
        event(content="Answer: "),
        event(content="B"),
        event("stop"),
        {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}},
    )
    assert answer.text == "Hm. So.</think>Answer: B"
    assert [piece.is_thinking for piece in answer.pieces] == [True, True, False, False]
    assert (answer.prompt_tokens, answer.generated_tokens) == (11, 7)
    assert (answer.think_mode, answer.closed.kind, answer.is_cut) == ("high", CloseKind.NATURAL, False)


def test_reasoning_is_another_name_for_it_and_max_stays_max() -> None:
    answer = read(event(reasoning="Hm."), event("stop", content="B"), thinks="max")
    assert (answer.text, answer.think_mode) == ("Hm.</think>B", "max")


def test_thoughts_that_never_end_stay_open() -> None:
    answer = read(event(reasoning_content="Answer: B"), event("length"))
    assert (answer.text, answer.think_mode, answer.is_cut) == ("Answer: B", "high", True)
    assert answer.closed.kind is CloseKind.NONE


@pytest.mark.parametrize(
    ("text", "said", "mode"),
    [
        ("<think>Hm.</think>Answer: B", "Hm.</think>Answer: B", "high"),
        ("\n <think>\nHm.\n</think>\n\nB", "\nHm.\n</think>\n\nB", "high"),
        ("Answer: B", "Answer: B", "none"),
        ("I <think> so", "I <think> so", "none"),
        ("<think>Hm.", "Hm.", "high"),
        ("<thin", "<thin", "none"),
        ("  ", "  ", "none"),
        ("<think></think>", "</think>", "high"),
        ("<think>a</think>b</think>c", "a</think>b</think>c", "high"),
        ("<think>a </thinkx> b", "a </thinkx> b", "high"),
        ("thoughts without a beginning</think>B", "thoughts without a beginning</think>B", "none"),
    ],
)
def test_tags_in_the_content_are_thoughts_in_any_split(text: str, said: str, mode: str) -> None:
    for size in range(1, len(text) + 1):
        answer = content(*(text[start : start + size] for start in range(0, len(text), size)))
        assert (answer.text, answer.think_mode) == (said, mode), size
        shown = "".join(piece.text for piece in answer.pieces)
        assert shown == (said.replace("</think>", "", 1) if mode == "high" else said)


@given(TEXTS, TEXTS)
def test_any_content_is_read_the_same_in_any_split(texts: list[str], reasoning: list[str]) -> None:
    def asked(parts: list[str], thoughts: list[str]) -> tuple[str, str]:
        answer = read(
            *(event(reasoning_content=t) for t in thoughts), *(event(content=t) for t in parts), event("stop")
        )
        return answer.text, "".join(piece.text for piece in answer.pieces if piece.is_thinking)

    assert asked(texts, reasoning) == asked(["".join(texts)], ["".join(reasoning)])
    assert asked(texts, reasoning) == asked(list("".join(texts)), list("".join(reasoning)))


def test_without_a_usage_the_pieces_are_counted() -> None:
    assert content("a", "b", "c").generated_tokens == 3


def test_a_whole_answer_is_read_too() -> None:
    message = {"role": "assistant", "content": "B", "reasoning_content": "Hm."}
    answer = read({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 5}})
    assert (answer.text, answer.generated_tokens) == ("Hm.</think>B", 5)


@pytest.mark.parametrize(
    ("events", "told", "may_help"),
    [
        (['{"error": {"message": "out of\\nmemory", "code": 500}}'], "the server failed: out of memory", True),
        (["not JSON"], "no JSON: 'not JSON'", True),
        (["[" * 100_000], "no JSON", True),
        (["[]"], "no event", False),
        (['{"choices": [{"delta": {"content": "B"}}]}'], "broke off", True),
        (['{"choices": 5}', '{"choices": true}'], "broke off", True),
        (['{"choices": [1, {"delta": 7}], "usage": {"completion_tokens": "x"}}'], "broke off", True),
    ],
)
def test_errors_are_told(events: list[str], told: str, may_help: bool) -> None:
    def read_all() -> None:
        reader = ChatReader(Answer(), "high")
        for one in events:
            reader.take(one)
        reader.finish()

    with pytest.raises(StreamError, match=told) as raised:
        read_all()
    assert raised.value.may_help is may_help


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.data())
def test_lines_are_found_in_any_split(texts: list[str], data: st.DataObject) -> None:
    wire = b": hello\n\nevent: x\n"
    for text in texts:
        wire += b"data: " + json.dumps(text, ensure_ascii=False).encode() + b"\r\n\r\n"
    wire += b"data:[DONE]\n\ndata: \n\n"
    lines, found = EventLines(), []
    while wire:
        size = data.draw(st.integers(1, len(wire)))
        found += lines.feed(wire[:size])
        wire = wire[size:]
    assert [json.loads(line) for line in found] == texts


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(StreamError, match="a line of more than"):
        list(EventLines().feed(b"x" * (LONGEST_LINE + 1)))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "no\nkey"}}, "no key"),
        ({"error": "no key"}, "no key"),
        ({"message": "no key"}, "no key"),
        ({"detail": 1}, "{'detail': 1}"),
        ([], "[]"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_an_errors_body_is_told_in_short(body: object, told: str) -> None:
    assert told_error(body) == told
