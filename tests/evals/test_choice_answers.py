"""The answers of science.toml and general.toml: computed where a machine can, and then exactly one choice says so."""

import pytest

from evals import verify_general, verify_science
from evals.matching import letters_that_match
from whitedwarf.evals.questions import built_in_cases

CASES = {case.id: case for case in built_in_cases() if case.kind == "choice"}
VERIFIERS = verify_science.VERIFIERS | verify_general.VERIFIERS
DERIVED = verify_science.DERIVED | verify_general.DERIVED


def test_every_case_is_either_computed_or_named_as_resting_on_its_derivation() -> None:
    assert sorted(CASES) == sorted([*VERIFIERS, *DERIVED])
    assert len(DERIVED) <= 3


@pytest.mark.parametrize("name", sorted(VERIFIERS))
def test_the_computed_value_is_the_answer_and_no_other_choice(name: str) -> None:
    assert letters_that_match(CASES[name], VERIFIERS[name]()) == CASES[name].answer
