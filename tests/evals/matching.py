"""Which choice a computed value is: the numbers in its text are the value's, rounded as they are written."""

import re
from collections.abc import Sequence

from whitedwarf.evals.case import Case

_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?: \d{3})*(?:\.\d+)?(?![\w]*\))")


def letters_that_match(case: Case, value: str | Sequence[float]) -> str:
    """The letters of the choices that say this: a text word for word, or numbers up to rounding."""
    return "".join(
        letter
        for letter, choice in zip(case.letters, case.choices, strict=True)
        if (choice == value if isinstance(value, str) else _says(choice, value))
    )


def _says(choice: str, values: Sequence[float]) -> bool:
    written = [text.replace("−", "-").replace(" ", "") for text in _NUMBER.findall(choice)]
    if len(written) != len(values):
        return False
    return all(
        abs(float(text) - value) <= 0.5001 * 10 ** -len(text.partition(".")[2])
        for text, value in zip(written, values, strict=True)
    )
