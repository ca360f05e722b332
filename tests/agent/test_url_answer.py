"""A server's answer in pieces: however it is cut, the same answer, the same events put together, the same checks."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.url_talks import Checks
from whitedwarf.agent.events import Drawn, Event, ParameterText
from whitedwarf.agent.url_answer import UrlAnswer
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta, ToolCallFinished, ToolCallStarted
from whitedwarf.web.endpoint.event_lines import StreamError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = TEXTS | st.integers(-9, 9) | st.booleans() | st.none() | st.lists(TEXTS, max_size=2)
CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "bash"]), st.dictionaries(TEXTS, VALUES, max_size=3), st.booleans()), max_size=3
)
ODD = st.none() | TEXTS | st.integers(-2, 2)
ODD_FUNCTIONS = st.dictionaries(st.sampled_from(["name", "arguments"]), ODD | st.dictionaries(TEXTS, ODD, max_size=2))
ODD_CALLS = st.dictionaries(st.sampled_from(["index", "id", "function"]), ODD | ODD_FUNCTIONS)
ODD_DELTAS = st.dictionaries(
    st.sampled_from(["content", "tool_calls", "index", "reasoning"]), ODD | st.lists(ODD | ODD_CALLS, max_size=2)
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, str, Any, list[dict[str, Any]]]:
    """Thoughts, text and calls, and the deltas of a server that says them."""
    thoughts, text, calls = draw(TEXTS), "Ok: " + draw(TEXTS), draw(CALLS)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in cut(draw, thoughts)]
    deltas += [{"content": piece} for piece in cut(draw, text)]
    for index, (name, arguments, is_ascii) in enumerate(calls):
        begin = {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begin]})
        written = json.dumps(arguments, ensure_ascii=is_ascii)
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": p}}]} for p in cut(draw, written)]
    return thoughts, text, calls, deltas


@given(streams())
def test_any_split_is_the_same_answer(stream: tuple[str, str, Any, list[dict[str, Any]]]) -> None:
    thoughts, text, calls, deltas = stream
    told: list[Event] = []
    checks = Checks()
    reader = UrlAnswer(told.append, checks, lambda: "new")
    for delta in deltas:
        reader.take(json.dumps({"choices": [{"delta": delta, "finish_reason": None}]}))
    reader.take(json.dumps({"choices": [{"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}))
    reader.finish()
    assert (reader.reasoning, reader.text, reader.unreadable) == (thoughts, text, "")
    assert [(call.id, call.name, call.arguments) for call in reader.calls] == [
        (f"c{index}", name, arguments) for index, (name, arguments, _) in enumerate(calls)
    ]
    assert "".join(event.text for event in told if isinstance(event, ReasoningDelta)) == thoughts
    assert "".join(event.text for event in told if isinstance(event, TextDelta)) == text
    for index, (name, arguments, _) in enumerate(calls):
        ours = [event for event in told if getattr(event, "index", None) == index]
        assert ours[0] == ToolCallStarted(index, name)
        pieces = [event.json_fragment for event in ours if isinstance(event, ArgumentsDelta)]
        assert json.loads("".join(pieces)) == arguments
        assert ours[-1] == ToolCallFinished(index, name, "".join(pieces))
        texts = {key: value for key, value in arguments.items() if isinstance(value, str)}
        said: dict[str, str] = {}
        for event in ours:
            if isinstance(event, ParameterText):
                said[event.parameter] = said.get(event.parameter, "") + event.text
        assert said == texts
    drawn = [event.tokens for event in told if isinstance(event, Drawn)]
    assert drawn == list(range(1, len(drawn) + 1))
    closed = [(tool, name) for tool, name, _ in checks.seen]
    assert closed == [
        (tool, name) for tool, arguments, _ in calls for name, value in arguments.items() if isinstance(value, str)
    ]


@given(st.lists(ODD_DELTAS, max_size=6))
def test_no_deltas_upset_it(deltas: list[dict[str, Any]]) -> None:
    reader = UrlAnswer(lambda event: None, Checks(), lambda: "new")
    try:
        for delta in deltas:
            reader.take(json.dumps({"choices": [{"delta": delta}, None, 5]}))
        reader.finish()
    except StreamError:
        reader.cut()
    for call in reader.said_calls:
        json.dumps(dict(call.arguments))
    assert isinstance(reader.text, str)
