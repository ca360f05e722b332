"""Every length of prompt with every length of suffix, from disk after a restart: the same bits (demand.md P16)."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from engine.bits import (
    FEW_SUFFIXES,
    LENGTHS,
    ROOMY,
    WHOLE_PROMPTS,
    ask,
    cold,
    dealt,
    extended,
    first_token,
    on_disk,
    prompt,
    reference,
)
from whitedwarf.config import ServeSettings
from whitedwarf.engine.request import Reuse
from whitedwarf.engine.stops import ANSWER_STEP

pytestmark = pytest.mark.slow

every_length = pytest.mark.parametrize("length", LENGTHS)


@every_length
def test_from_disk_after_a_restart(length: int, tmp_path: Path) -> None:
    with on_disk(tmp_path) as engine:
        assert ask(engine, prompt(length)).finished.reuse is Reuse.NONE
    with on_disk(tmp_path) as engine:
        for suffix in dealt(length)[:: 2 if length < 1000 else 6]:
            answer = ask(engine, extended(length, suffix), 1)
            assert (answer.finished.reuse, answer.finished.reused_tokens) == (Reuse.DISK, length)
            assert answer.tokens == (first_token(reference(length)[suffix]),)


@every_length
@pytest.mark.parametrize("form", ["packed", "ds4"])
def test_answers_after_a_restart_go_on_alike(length: int, form: Literal["packed", "ds4"], tmp_path: Path) -> None:
    saves = replace(WHOLE_PROMPTS, kv_disk_format=form)
    with on_disk(tmp_path, ROOMY, saves) as engine:
        ask(engine, prompt(length))
    with on_disk(tmp_path, ROOMY, saves) as engine:
        for number, suffix in enumerate(FEW_SUFFIXES[:: 1 if length < 1000 else 5]):
            ids = extended(length, suffix)
            answer = ask(engine, ids)
            assert answer.finished.reuse is Reuse.DISK or number
            assert answer.tokens == cold(ids)


def test_a_state_saved_in_the_middle_of_an_answer_is_what_a_prompt_makes_of_the_same_tokens(tmp_path: Path) -> None:
    steps = ServeSettings(kv_cache_continued_interval_tokens=ANSWER_STEP, kv_cache_cold_max_tokens=0)
    ids = prompt(ANSWER_STEP - 140)
    with on_disk(tmp_path, saves=steps) as engine:
        answer = [token.id for token in ask(engine, ids, 150).tokens]
    for suffix in (1, 300):
        longer = (*ids, *answer, *prompt(suffix, seed=7))
        with on_disk(tmp_path, saves=steps) as engine:
            again = ask(engine, longer)
        assert (again.finished.reuse, again.finished.reused_tokens) == (Reuse.DISK, ANSWER_STEP)
        assert again.tokens == cold(longer)
