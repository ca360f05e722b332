"""Answers held to a form are measured beside free ones."""

import json

import pytest

from engine.bits import nano
from fakes.models import FakeModel
from whitedwarf.bench.forms import FormPlan, forms, measure_forms
from whitedwarf.cli.main import main
from whitedwarf.prompt.tokenizer import Tokenizer

PLAN = FormPlan(prompt_tokens=8, decode_tokens=24, rounds=2)


def test_each_form_is_measured_greedily_and_not() -> None:
    tokenizer = Tokenizer.from_metadata(nano().gguf.metadata)
    told: list[str] = []
    costs = measure_forms(FakeModel(vocab_size=tokenizer.vocab_size), tokenizer, PLAN, 64, told.append)
    assert [(cost.form, cost.temperature) for cost in costs] == [
        (form, temperature) for form in forms(PLAN) for temperature in (0.0, 1.0)
    ]
    assert all(min(cost.pass_us, cost.free_us, cost.held_us) > 0 for cost in costs)
    assert "string, temperature 1" in told


def test_the_command_tells_a_table_and_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "forms", "-r", "1", "-n", "12", "-p", "4"])
    *table, document = capsys.readouterr().out.splitlines()
    assert len(table) == 4
    assert "of a token" in table[0]
    assert len(json.loads(document)["costs"]) == 4
