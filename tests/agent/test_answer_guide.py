"""What steers and reads an answer on the engine's thread: it never raises, and every token is heard."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.scripted_agent import NoChecks, block, call, segments_of
from whitedwarf.agent.answer_guide import AnswerGuide, Heard
from whitedwarf.agent.events import AnswerEnd, Event, ParameterText
from whitedwarf.conversation.events import BackendReason, TextDelta, ToolCallFinished
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.segments import Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

STARTS = [ParseStart.CONTENT, ParseStart.REASONING]
WORDS = [
    "<", "</", ">", "\n", '"', "tool_calls>", " calls>", "invoke>", "parameter>", 'invoke name="a">', " ", "x",
    'parameter name="b" string="true">', 'parameter name="c" string="false">', "[upto]", "{", "1", "é", *SpecialToken,
]  # fmt: skip
PIECES = st.lists(st.sampled_from(WORDS), max_size=40)


def guide_of(tokenizer: Tokenizer, start: ParseStart = ParseStart.CONTENT, **refused: str) -> AnswerGuide:
    return AnswerGuide(tokenizer, ParseOptions(start=start), NoChecks(refused=refused))


def heard(guide: AnswerGuide, ids: list[int]) -> list[Heard]:
    told = []
    for token in ids:
        course = guide.accept(token)
        one = guide.take(0)
        assert one is not None
        told.append(one)
        if course.is_over:
            break
    assert guide.take(0) is None
    return told


def ids_of(tokenizer: Tokenizer, pieces: list[str]) -> list[int]:
    return tokenizer.encode_segments(
        segments_of([SpecialToken(piece) if piece in list(SpecialToken) else Text(piece) for piece in pieces])
    )


@settings(max_examples=300)
@given(start=st.sampled_from(STARTS), pieces=PIECES, reason=st.sampled_from([BackendReason.STOP, BackendReason.LENGTH]))
def test_whatever_is_drawn_it_raises_nothing_and_every_token_is_heard(
    tokenizer: Tokenizer, start: ParseStart, pieces: list[str], reason: BackendReason
) -> None:
    guide = guide_of(tokenizer, start)
    ids = ids_of(tokenizer, pieces)
    events: list[Event] = [event for one in heard(guide, ids) for event in one.events]
    events += guide.finish(reason)
    if guide.fault is None:
        parser = OutputParser(ParseOptions(start=start), tokenizer)
        expected = [*parser.feed_ids(ids), *parser.finish(reason)][:-1]
        text = "".join(event.text for event in expected if isinstance(event, TextDelta))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
        calls = [event for event in expected if isinstance(event, ToolCallFinished)]
        assert [event for event in events if isinstance(event, ToolCallFinished)] == calls


@settings(max_examples=100)
@given(ids=st.lists(st.integers(0, 4095), max_size=60))
def test_random_tokens_raise_nothing(tokenizer: Tokenizer, ids: list[int]) -> None:
    guide = guide_of(tokenizer)
    heard(guide, ids)
    guide.finish(BackendReason.STOP)


@pytest.mark.parametrize("version", ModelVersion)
def test_parameters_are_told_and_the_answer_is_over_behind_the_block(
    tokenizer: Tokenizer, version: ModelVersion
) -> None:
    calls = block(call("edit", path="a.py", count=3, old="x\ny"), call("edit", path="b.py"), version=version)
    ids = tokenizer.encode_segments([*calls, Text("never")])
    guide = guide_of(tokenizer)
    told = heard(guide, ids)
    assert len(told) == len(tokenizer.encode_segments(calls))
    values: dict[tuple[int, str], str] = {}
    for one in told:
        for event in one.events:
            if isinstance(event, ParameterText):
                key = (event.index, event.parameter)
                values[key] = values.get(key, "") + event.text
    assert values == {(0, "path"): "a.py", (0, "old"): "x\ny", (1, "path"): "b.py"}


def test_a_refused_parameter_is_the_last_that_is_heard(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_segments(block(call("edit", path="a.py", old="no", new="z")))
    guide = guide_of(tokenizer, old="not there")
    last = heard(guide, ids)[-1].events[-1]
    assert last == ParameterText(0, "old", "", is_closed=True)
    assert guide.fault is not None
    assert (guide.fault.end, guide.fault.text) == (AnswerEnd.REFUSED, "not there")
    assert guide.finish(BackendReason.LENGTH) == []


@given(value=st.text("ab<>/\n\"' ", max_size=60))
def test_the_open_value_is_known_to_the_last_character(tokenizer: Tokenizer, value: str) -> None:
    guide = guide_of(tokenizer)
    opening = block(call("edit", old="OLD"))
    at = next(i for i, part in enumerate(opening) if isinstance(part, Text) and "OLD" in part.text)
    before = opening[at]
    assert isinstance(before, Text)
    ids = tokenizer.encode_segments([*opening[:at], Text(before.text.split("OLD")[0] + value)])
    heard(guide, ids)
    assert guide.value == value
    assert guide.ends_line is (tokenizer.token_bytes(ids[-1]).endswith(b"\n"))
