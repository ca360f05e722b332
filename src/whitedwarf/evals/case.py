"""One question with a known answer: a plain value, whoever wrote it and whatever is asked.

Promises: a case that exists can be graded. Its answer is one of the letters of its choices, a whole number, or lines of
a listing, written in their one normal form.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.lines import number

Kind: TypeAlias = Literal["choice", "integer", "lines"]
"""What an answer is: a letter, a whole number, or lines of a numbered listing (0: none)."""

LETTERS = "ABCDEFGHIJ"
SAFE = "0"  # the answer in lines where nothing is wrong
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_LINES = re.compile(r"[1-9][0-9]*(-[1-9][0-9]*)?(,[1-9][0-9]*(-[1-9][0-9]*)?)*")
_WORD = re.compile(r"[^\s/=]+")


@dataclass(frozen=True, slots=True)
class Case:
    """A question. `choices` are the texts without their letters, none unless the kind is choice.

    `answer` is a letter ("C"), an integer ("70") or lines ("12,14-15"; "0" where the code is safe). Raises
    FileFormatError where these contradict each other; the caller knows the file and the line.
    """

    source: str  # where it is from: one word, such as science
    id: str  # one word, unique in its source
    domain: str
    title: str
    question: str
    choices: tuple[str, ...]
    answer: str
    kind: Kind

    def __post_init__(self) -> None:
        fault = _fault(self)
        if fault is not None:
            raise FileFormatError(fault)

    @property
    def name(self) -> str:
        """Source and id: what reports and traces call it."""
        return f"{self.source}/{self.id}"

    @property
    def letters(self) -> str:
        """The letters of the choices: "ABCD" for four."""
        return LETTERS[: len(self.choices)]


def _fault(case: Case) -> str | None:
    try:
        "".join((case.source, case.id, case.domain, case.title, case.question, *case.choices)).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair stands in a text; expected whole characters"
    if case.kind not in get_args(Kind):
        return f"expected a kind of {', '.join(get_args(Kind))}, got {case.kind!r}"
    for name in ("source", "id"):
        if not _WORD.fullmatch(getattr(case, name)):
            return f"{name}: expected one word without / and =, got {getattr(case, name)!r}"
    for name in ("domain", "title"):
        if "\n" in getattr(case, name) or "\r" in getattr(case, name):
            return f"{name}: expected one line, got {getattr(case, name)!r}"
    if not case.question.strip():
        return "question: expected a text, got an empty one"
    return _choices_fault(case) or _answer_fault(case)


def _choices_fault(case: Case) -> str | None:
    if case.kind != "choice":
        return f"choices: expected none where the answer is of kind {case.kind}" if case.choices else None
    if not 2 <= len(case.choices) <= len(LETTERS):
        return f"choices: expected 2 to {len(LETTERS)} of them, got {len(case.choices)}"
    if not all(choice.strip() for choice in case.choices):
        return "choices: one of them is empty"
    return None


def _answer_fault(case: Case) -> str | None:
    if case.kind == "choice":
        if len(case.answer) != 1 or case.answer not in case.letters:
            return f"answer: expected one letter of {case.letters}, got {case.answer!r}"
        return None
    if case.kind == "integer":
        if not _INTEGER.fullmatch(case.answer):
            return f'answer: expected an integer without leading zeros such as "70", got {case.answer!r}'
        return None
    if case.answer != SAFE and not _LINES.fullmatch(case.answer):
        return f'answer: expected lines such as "12" or "12,14-15", or "0" for none, got {case.answer!r}'
    if any(number(first) > number(last) for first, last in re.findall(r"([0-9]+)-([0-9]+)", case.answer)):
        return f"answer: a range of lines ends before it begins: {case.answer!r}"
    return None
