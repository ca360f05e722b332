"""Requests with tools of every kind, what a model may write in answer to them, and event sequences without a parser."""

from typing import Any

from hypothesis import strategies as st

from prompt.streams import D, block, call, parameter
from prompt.test_parse_streams import WORDS
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

TOOLS = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}},
    {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
    {"type": "tool_search", "execution": "client", "description": "finds"},
    {"type": "namespace", "name": "grp", "description": "d", "tools": [{"type": "function", "name": "inner"}]},
]
NAMES = ("apply_patch", "apply_patch", "tool_search", "grp::inner", "grp__inner", "f")
VALUES = ("", "x", '"a"', ' "a\\u00e9\\ud83e\\udd94\\n"', "[1,", "12", '*** "Begin\n\tPatch\\', "{}", "é🦔", '"\\q')


def _request(model: str, effort: str, tools: list[dict[str, Any]], settings: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "input": "json", "reasoning": {"effort": effort}, "tools": tools, **settings}


def _call(name: str, parameters: list[tuple[tuple[str, str], bool]]) -> str:
    return call(name, *(parameter(*texts, is_string=is_string) for texts, is_string in parameters))


REQUESTS = st.builds(
    _request,
    st.sampled_from(["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]),
    st.sampled_from(["none", "high"]),
    st.lists(st.sampled_from(TOOLS), unique_by=lambda tool: str(tool["type"])),
    st.sampled_from([{}, {"temperature": 0.5}, {"top_logprobs": 2}, {"text": {"verbosity": "low"}}]),
)
_PARAMETER = st.tuples(st.sampled_from(["input", "input", "k", "inp"]), st.sampled_from(VALUES))
_CALLS = st.builds(_call, st.sampled_from(NAMES), st.lists(st.tuples(_PARAMETER, st.booleans()), max_size=3))
_HALVES = [
    *(f'<{D}invoke name="{name}">' for name in NAMES),
    *(f'<{D}parameter name="input" string="{is_string}">' for is_string in ("true", "false")),
    *("input", '"input"', 'parameter name="input" string="false">', '"\\', "\\u", "\\ud83e", "\\udd94", "00e9", "u"),
    *(f"</{D}parameter>", f"</{D}invoke>", f"<{D}calls>"),
]
PARTS = st.lists(
    st.one_of(_CALLS, _CALLS.map(block), st.sampled_from(_HALVES), st.sampled_from(WORDS), st.sampled_from(VALUES)),
    max_size=10,
)


@st.composite
def event_sequences(draw: st.DrawFn) -> list[Event]:
    """Any order of thinking, text and calls that a parser might tell, to the end."""
    events: list[Event] = []
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["thought", "text", "call"]), max_size=6)):
        texts = draw(st.lists(st.text(max_size=4), min_size=1, max_size=3))
        if kind == "call":
            name = draw(st.sampled_from(NAMES))
            whole = draw(st.sampled_from(["{}", '{"input": "a\\n"}', '{"k": 1}', '{"k": 1, "input": "b"}']))
            cut = draw(st.integers(0, len(whole)))
            events += [ToolCallStarted(calls, name), ArgumentsDelta(calls, whole[:cut])]
            events += [ArgumentsDelta(calls, whole[cut:]), ToolCallFinished(calls, name, whole)]
            calls += 1
        else:
            make = ReasoningDelta if kind == "thought" else TextDelta
            events += [make(text) for text in texts]
    if draw(st.booleans()):
        events += [ToolCallStarted(calls, draw(st.sampled_from(NAMES))), ArgumentsDelta(calls, '{"input": "a')]
    return [*events, Finished(draw(st.sampled_from(FinishReason)), None, 9, 3)]
