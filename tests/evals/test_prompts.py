"""What models are asked."""

import pytest

from evals.test_case import case
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.questions import built_in_cases


def test_choices_have_letters_and_the_last_line_is_asked_for() -> None:
    assert question_prompt(case()) == (
        "1 + 2 = ?\n\nA. 1\nB. 2\nC. 3\nD. 4\n\n"
        "Finish with exactly one final line of this form, the letter of the right choice:\nAnswer: <letter>"
    )


@pytest.mark.parametrize(
    ("kind", "answer", "ending"),
    [
        ("integer", "70", "Answer: <integer>"),
        ("lines", "12", "Answer: <line number or comma-separated line numbers>"),
    ],
)
def test_other_kinds_ask_for_their_own(kind, answer: str, ending: str) -> None:  # type: ignore[no-untyped-def]
    assert question_prompt(case(kind, answer, ())).endswith(f"\n{ending}")


def test_nothing_of_an_answer_is_in_a_built_in_prompt() -> None:
    """`<letter>` and its like are no answers: a model that repeats its prompt has to fail."""
    from whitedwarf.evals.grade import Expected, Status, grade

    for one in built_in_cases():
        echoed = question_prompt(one).rpartition("\n")[2]
        assert grade(f"{SYSTEM_PROMPT}\n{echoed}", Expected.of(one), "none").status is Status.FAILED
