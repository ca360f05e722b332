"""What holds an answer to its form: from behind its thought to the end."""

from typing import Any

import numpy as np
import pytest

from protocol.scripted_dialects import Script
from whitedwarf.engine.guide import Mask
from whitedwarf.errors import RequestError
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.form_guide import FormGuide, enforced_form, form_guide

NUMBER = {
    "type": "json_schema",
    "json_schema": {"name": "f", "schema": {"type": "integer", "minimum": 1, "maximum": 9}},
}


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def guide(nano: Tokenizer, grammars: Grammars, **asked: Any) -> FormGuide | None:
    converted = Script("chat", **asked).converted()
    form = enforced_form(converted, grammars)
    return None if form is None else form_guide(converted, nano, form)


def steering(nano: Tokenizer, grammars: Grammars, **asked: Any) -> FormGuide:
    found = guide(nano, grammars, **asked)
    assert found is not None
    return found


def texts(nano: Tokenizer, mask: Mask | None) -> set[str]:
    assert mask is not None
    allowed = np.flatnonzero(np.unpackbits(mask, count=nano.vocab_size, bitorder="little"))
    return {nano.decode([int(token)]) for token in allowed}


def test_the_first_token_is_of_the_form_already(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), members={"response_format": NUMBER})
    assert texts(nano, steered.mask()) == set("123456789")
    assert steered.accept(nano.encode("4")[0]).is_over


def test_a_form_begins_behind_the_thought_which_cannot_end_the_answer(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), thinks=True, members={"response_format": NUMBER})
    for token in nano.encode("Is it 4? {"):
        assert not steered.accept(token).is_over
        missing = set(map(nano.decode, ([token] for token in range(nano.vocab_size)))) - texts(nano, steered.mask())
        assert missing == {SpecialToken.EOS}
    steered.accept(nano.special_id(SpecialToken.THINK_CLOSE))
    assert texts(nano, steered.mask()) == set("123456789")


def test_an_object_is_over_with_its_last_brace(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), members={"response_format": {"type": "json_object"}})
    *begun, last = nano.encode('{"a": {"b":1}}')
    assert not any(steered.accept(token).is_over for token in begun[:-1])
    steered.accept(begun[-1])
    assert steered.accept(last).is_over


def test_a_regular_expression_ends_where_it_is_matched(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), members={"response_format": {"type": "regex", "regex": "ab?"}})
    steered.mask()
    assert not steered.accept(nano.encode("a")[0]).is_over
    assert texts(nano, steered.mask()) == {"b", SpecialToken.EOS}


def test_an_answer_that_the_client_has_begun_goes_on_in_the_form(nano: Tokenizer, grammars: Grammars) -> None:
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": '{"a":', "prefix": True}]
    object_form = {"messages": turns, "response_format": {"type": "json_object"}}
    steered = steering(nano, grammars, tools=(), members=object_form)
    assert "}" not in texts(nano, steered.mask())
    steered.accept(nano.encode("1")[0])
    assert "}" in texts(nano, steered.mask())
    with pytest.raises(RequestError, match="beginning"):
        guide(nano, grammars, tools=(), members={**object_form, "response_format": NUMBER})


def test_who_asks_for_no_form_gets_no_such_guide(nano: Tokenizer, grammars: Grammars) -> None:
    assert guide(nano, grammars, tools=()) is None
    assert guide(nano, grammars) is None
    assert guide(nano, grammars, members={"response_format": NUMBER}) is not None  # beside tools, too


def test_a_script_that_is_not_of_the_form_is_let_through(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), members={"response_format": NUMBER})
    assert not any(steered.accept(token).is_over for token in nano.encode("no number 4"))


def test_a_token_that_the_mask_forbade_is_an_error(nano: Tokenizer, grammars: Grammars) -> None:
    steered = steering(nano, grammars, tools=(), members={"response_format": NUMBER})
    steered.mask()
    with pytest.raises(RuntimeError, match="cannot be followed"):
        steered.accept(nano.encode("x")[0])
