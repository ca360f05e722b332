"""What a model is asked: one system line, the question, its choices, and how the last line of the answer has to look.

The words are part of the instrument: other words would give other figures. Pure.
"""

from whitedwarf.evals.case import Case, Kind

SYSTEM_PROMPT = (
    "You are taking an exam. Work each problem out carefully, check your result, and end with exactly the line that "
    "is asked for."
)
_ENDINGS: dict[Kind, str] = {
    "choice": "Finish with exactly one final line of this form, the letter of the right choice:\nAnswer: <letter>",
    "integer": "Finish with exactly one final line of this form, the result as a plain integer:\nAnswer: <integer>",
    "lines": (
        "Finish with exactly one final line of this form; give 0 where nothing is wrong with the code:\n"
        "Answer: <line number or comma-separated line numbers>"
    ),
}


def question_prompt(case: Case) -> str:
    """All that the user says."""
    choices = [f"{letter}. {choice}" for letter, choice in zip(case.letters, case.choices, strict=True)]
    parts = [case.question.rstrip(), "\n".join(choices), _ENDINGS[case.kind]]
    return "\n\n".join(part for part in parts if part)
