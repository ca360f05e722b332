"""The answers of maths.toml, each counted or measured by a function of its own."""

import pytest

from evals.verify_maths import SOLVERS
from whitedwarf.evals.questions import built_in_cases

CASES = {case.id: case for case in built_in_cases() if case.kind == "integer"}


def test_every_case_has_a_function() -> None:
    assert sorted(SOLVERS) == sorted(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_answer_is_what_counting_gives(name: str) -> None:
    assert 0 <= int(CASES[name].answer) <= 999
    assert SOLVERS[name]() == int(CASES[name].answer)
