"""The agent makes of nano's words what nano itself means, task by task, whatever nano's weights are."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.agent_nano import CONTEXT, Outcome, Trial, summary, tasks

from whitedwarf.agent.dialogue import Call
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.weights.store import bundled_model


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    loaded = open_model(ModelSettings(model=str(bundled_model()), context=CONTEXT))
    with loaded.engine() as engine:
        yield Trial(loaded.tokenizer(), engine)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_the_agent_loses_no_call_and_helps_none(trial: Trial, number: int) -> None:
    outcome = trial.run(tasks(6, seed=7)[number])
    assert outcome.agent is outcome.direct


def test_the_same_seed_gives_the_same_tasks_and_every_kind() -> None:
    made = tasks(6, seed=1)
    assert made == tasks(6, seed=1) != tasks(6, seed=2)
    assert [task.call.name for task in made] == ["read", "write", "list"] * 2
    assert {task.is_thinking for task in made} == {True, False}


def test_the_summary_names_what_differs() -> None:
    task = tasks(1, seed=1)[0]
    other = replace(task, words="Do it.", call=Call("list", {}))
    told = summary(
        [
            Outcome(task, True, True),
            Outcome(other, False, True),
            Outcome(other, False, False),
            Outcome(task, True, True),
        ]
    )
    assert (told["agent_rate"], told["direct_rate"], told["different"]) == (0.5, 0.75, ["Do it."])


def test_tasks_stay_within_their_folder(tmp_path: Path) -> None:
    for task in tasks(60, seed=3):
        for name in [*task.files, str(task.call.arguments["path"])]:
            assert (tmp_path / name).resolve().is_relative_to(tmp_path)
