"""Calls that may come: words stay free, and what begins to be a call becomes one of an offered tool."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from whitedwarf.conversation.events import ToolCallFinished, ToolCallStarted
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.call_grammar import WantedCalls
from whitedwarf.prompt.dsml import V4, V41, Dialect
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide
from whitedwarf.protocol.offered_calls import OfferedCalls

SCHEMA: Any = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "times": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["path"],
    "additionalProperties": False,
}
STRICT = ToolDefinition("edit", None, SCHEMA, is_strict=True)
OPTIONS = ParseOptions()
in_each_dialect = pytest.mark.parametrize("dialect", [V4, V41])


@pytest.fixture(scope="module")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def guide(nano: Tokenizer, grammars: Grammars, dialect: Dialect, *, is_single: bool = False) -> OfferedCalls:
    grammar = grammars.of_calls([STRICT], dialect, WantedCalls("mark", is_single))
    return OfferedCalls(CallGuide(nano, OPTIONS), grammar, nano)


def allowed(held: OfferedCalls, nano: Tokenizer) -> np.ndarray | None:
    mask = held.mask()
    if mask is None:
        return None
    return np.flatnonzero(np.unpackbits(mask, count=nano.vocab_size, bitorder="little"))


@in_each_dialect
def test_words_are_free_until_a_tag_begins(nano: Tokenizer, grammars: Grammars, dialect: Dialect) -> None:
    held, mark = guide(nano, grammars, dialect), nano.special_id(SpecialToken.DSML)
    for token in nano.encode("Is a < b, or </ or > so?"):
        assert held.mask() is None
        held.accept(token)
    held.accept(mark)  # behind no bracket: out of place
    assert held.mask() is None
    for token in nano.encode(" go on.\n\n<"):
        held.accept(token)
        assert held.mask() is None
    held.accept(mark)
    assert allowed(held, nano) is not None


@in_each_dialect
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), is_single=st.booleans())
def test_any_draw_calls_offered_tools_with_arguments_of_their_schemas(
    nano: Tokenizer, grammars: Grammars, dialect: Dialect, seed: int, is_single: bool
) -> None:
    held, random = guide(nano, grammars, dialect, is_single=is_single), np.random.default_rng(seed)
    closing = {nano.special_id(SpecialToken.DSML), *nano.encode("</"), *nano.encode("</x")[:1]}
    ids = [*nano.encode("Let me see.\n\n<"), nano.special_id(SpecialToken.DSML)]
    course = held.course
    for token in ids:
        course = held.accept(token)
    while not course.is_over:
        choices = allowed(held, nano)
        assert choices is not None
        near_end = [token for token in choices if token in closing]
        token = int(random.choice(near_end if near_end and random.random() < 0.5 else choices))
        course = held.accept(token)
        ids.append(token)
        if len(ids) > 400:
            return
    parser = OutputParser(OPTIONS, nano)
    events = [*parser.feed_ids(ids), *parser.finish()]
    finished = [event for event in events if isinstance(event, ToolCallFinished)]
    assert len(finished) == sum(isinstance(event, ToolCallStarted) for event in events) > 0
    assert len(finished) == 1 or not is_single
    for call in finished:
        assert call.name == "edit"
        Draft202012Validator(SCHEMA).validate(json.loads(call.arguments))


def test_a_thought_is_free_and_a_tag_in_it_begins_nothing(nano: Tokenizer, grammars: Grammars) -> None:
    grammar = grammars.of_calls([STRICT], V4, WantedCalls("mark"))
    options = ParseOptions(start=ParseStart.REASONING)
    held = OfferedCalls(CallGuide(nano, options), grammar, nano)
    for token in [*nano.encode("I could call <"), nano.special_id(SpecialToken.DSML), *nano.encode("tool")]:
        held.accept(token)
        assert held.mask() is None


def test_who_never_asked_may_say_anything(nano: Tokenizer, grammars: Grammars) -> None:
    held = guide(nano, grammars, V4)
    for token in [*nano.encode("<"), nano.special_id(SpecialToken.DSML), *nano.encode("nonsense>"), 7, 8]:
        held.accept(token)
    assert held.mask() is None
