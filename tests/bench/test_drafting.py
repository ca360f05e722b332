"""Drafts are measured beside plain decoding, and give its tokens."""

import json

import pytest

from fakes.models import FakeModel
from whitedwarf.bench.drafting import DraftPlan, PlantedDrafter, measure_drafts
from whitedwarf.bench.speed import random_ids
from whitedwarf.cli.main import main
from whitedwarf.weights.store import bundled_model

PLAN = DraftPlan(prompt_tokens=8, decode_tokens=40, acceptance=0.7, most=16, rounds=2)


def test_every_side_is_measured_and_compared_with_plain_decoding() -> None:
    told: list[str] = []
    paces = measure_drafts(FakeModel(max_rollback=16, delay_s=0.0005), PLAN, 64, told.append)
    assert [pace.name for pace in paces] == ["plain", "planted, 70% right", "planted, all wrong", "n-grams"]
    assert paces[0].ratio == 1
    assert all(pace.tokens_per_s > 0 for pace in paces)
    assert "round 2 of 2: n-grams" in told


def test_a_planted_drafter_is_right_as_often_as_it_should_be() -> None:
    text = random_ids(64, 4000)
    drafter, hits = PlantedDrafter(text, 0.7), 0
    for start in range(len(text) - 1):
        drafter.told(text[start : start + 1])
        hits += drafter.draft(1).ids[0] == text[start + 1]
    assert hits / len(text) == pytest.approx(0.7, abs=0.03)
    assert not drafter.draft(0).ids


def test_the_command_tells_a_table_and_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "drafts", "-r", "1", "-n", "12", "-p", "4"])
    *table, document = capsys.readouterr().out.splitlines()
    assert len(table) == 4
    assert json.loads(document)["plan"]["acceptance"] == 0.7


def test_the_models_own_block_is_a_side_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    block = str(bundled_model().with_name("nano-mtp.gguf"))
    main(["bench", "drafts", "-r", "1", "-n", "12", "-p", "4", "--mtp", block])
    *table, document = capsys.readouterr().out.splitlines()
    assert len(table) == 5
    assert json.loads(document)["paces"][-1]["name"] == "block and n-grams"
