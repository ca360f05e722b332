"""What a form leaves no choice in is looked at ahead: fewer passes, the same answer."""

import json
from collections.abc import Sequence

import pytest
from jsonschema import Draft202012Validator

from engine.bits import nano
from fakes.drafters import AllLengths, NoDrafter
from fakes.gates import PATIENCE_S
from fakes.models import FakeModel
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import FREE, Course
from whitedwarf.engine.request import Completion, GenerateOptions, SamplingOptions
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.protocol.form_guide import FormGuide

SCHEMA = {
    "type": "object",
    "properties": {
        "the_first_long_name_of_a_member": {"type": "boolean"},
        "another_rather_long_name": {"enum": ["one_of_the_values", "one_of_the_others"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["the_first_long_name_of_a_member", "another_rather_long_name", "count"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_of_a_form_takes_fewer_passes_and_is_the_same(temperature: float) -> None:
    loaded = nano()
    tokenizer = loaded.tokenizer()
    grammar = Grammars(tokenizer).of_schema(SCHEMA)
    options = GenerateOptions(120, sampling=SamplingOptions(temperature, seed=3))

    def answered(drafting: Drafting | None) -> Completion:
        guide = FormGuide(grammar, tokenizer, is_thinking=False)
        with Engine(loaded.transformer, drafting=drafting) as engine:
            return engine.submit(tokenizer.encode("Give me one."), options, guide=guide).result(PATIENCE_S)

    plain, drafted = answered(None), answered(Drafting(NoDrafter, lengths=AllLengths()))
    assert drafted.ids == plain.ids
    assert drafted.finished.accepted_tokens > len(plain.ids) / 3
    Draft202012Validator(SCHEMA).validate(json.loads(tokenizer.decode(plain.ids)))


class Liar:
    """Says of every token that it has to be 7, or fails."""

    course = FREE

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def forced(self) -> Sequence[int]:
        if self._fails:
            raise ValueError("lost")
        return [7] * 5

    def mask(self) -> None:
        return None

    def accept(self, token: int) -> Course:
        return FREE


@pytest.mark.parametrize("fails", [True, False])
def test_a_guide_that_is_wrong_changes_nothing(fails: bool) -> None:
    options = GenerateOptions(30, sampling=SamplingOptions(seed=3))
    answers = []
    for drafting in (None, Drafting(NoDrafter, lengths=AllLengths())):
        with Engine(FakeModel(max_rollback=16), drafting=drafting) as engine:
            answers.append(engine.submit([1, 2], options, guide=Liar(fails=fails)).result(PATIENCE_S).ids)
    assert answers[0] == answers[1]
