"""What steers answers that have to call a tool: a form and calls at once."""

from typing import Any

import numpy as np
import pytest

from protocol.scripted_dialects import DIALECTS, Script
from whitedwarf.engine.guide import FREE, Guide
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.answer_guide import CallsOfForm, answer_guide
from whitedwarf.protocol.call_guide import CallGuide
from whitedwarf.protocol.form_guide import FormGuide, enforced_form

REQUIRED: dict[str, Any] = {"chat": "required", "messages": {"type": "any"}, "responses": "required"}
D = "｜DSML｜"


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def guide(nano: Tokenizer, grammars: Grammars, script: Script, version: ModelVersion = ModelVersion.V4) -> Guide | None:
    converted = script.converted(version)
    return answer_guide(converted, nano, enforced_form(converted, grammars))


def first_texts(nano: Tokenizer, steered: Guide) -> set[str]:
    mask = steered.mask()
    assert mask is not None
    allowed = np.flatnonzero(np.unpackbits(mask, count=nano.vocab_size, bitorder="little"))
    return {nano.decode([int(token)]) for token in allowed}


def test_each_request_gets_what_it_needs(nano: Tokenizer, grammars: Grammars) -> None:
    form = {"response_format": {"type": "json_object"}}
    assert guide(nano, grammars, Script("chat", tools=())) is None
    assert isinstance(guide(nano, grammars, Script("chat")), CallGuide)
    assert isinstance(guide(nano, grammars, Script("chat", tools=(), members=form)), FormGuide)
    assert isinstance(guide(nano, grammars, Script("chat", members={"tool_choice": "required"})), CallsOfForm)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("version", ModelVersion)
def test_a_call_that_has_to_come_is_greedy_of_its_form_and_the_end(
    nano: Tokenizer, grammars: Grammars, dialect: str, version: ModelVersion
) -> None:
    script = Script(dialect, tools=("run",), members={"tool_choice": REQUIRED[dialect]})
    steered = guide(nano, grammars, script, version)
    assert steered is not None
    assert steered.course.is_greedy
    assert first_texts(nano, steered) == {"<"}
    blank = " " if version is ModelVersion.V41 else ""
    calls = "calls" if version is ModelVersion.V41 else "tool_calls"
    said = f'<{D}{blank}invoke name="run">\n</{D}{blank}invoke>\n</{D}{blank}{calls}>'
    courses = []
    for token in nano.encode_rendered(said):
        steered.mask()
        courses.append(steered.accept(token))
    assert courses[-1].is_over
    assert all(course.is_greedy and not course.is_over for course in courses[:-1])


def test_a_model_that_thinks_calls_behind_its_thought(nano: Tokenizer, grammars: Grammars) -> None:
    script = Script("chat", thinks=True, tools=("run",), members={"tool_choice": "required"})
    steered = guide(nano, grammars, script)
    assert steered is not None
    assert steered.course == FREE
    assert SpecialToken.EOS not in first_texts(nano, steered)
    assert {"<", "Z", SpecialToken.THINK_CLOSE} <= first_texts(nano, steered)
    steered.accept(nano.special_id(SpecialToken.THINK_CLOSE))
    assert first_texts(nano, steered) <= {"\n", "\n\n", "\n\n<"}
