"""Questions of the user's own: JSON lines in the shapes in which GPQA, SuperGPQA, AIME and MMLU are published.

No data set comes with whitedwarf. Promises: keys beyond those that are needed are left alone, what is wrong is told
with the line and the key, and the same file always gives the same cases: GPQA's answers, which have no order, are put
in one that depends on the question alone.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.case import LETTERS, Case
from whitedwarf.evals.text_file import json_lines

_NO_WORD = re.compile(r"[\s/=]+")
_WHOLE = re.compile(r"-?[0-9]{1,1000}")
_WRONG_ANSWERS = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_TITLE_CHARACTERS = 60


def read_cases(path: Path, shape: str | None = None) -> tuple[Case, ...]:
    """At least one case; UsageError for a file that cannot be read, FileFormatError with the line and the key.

    `shape`: one of SHAPES; None: told by the keys of the first line.
    """
    cases: list[Case] = []
    names: dict[str, int] = {}
    for number, members in _objects(path):
        where = f"{path}, line {number}"
        shape = shape or _shape_of(members, where)
        try:
            case = SHAPES[shape](_Line(members, number))
        except FileFormatError as error:
            raise FileFormatError(f"{where}: {error} (read as {shape}; --shape names another)") from error
        if case.name in names:
            raise FileFormatError(f"{where}: the id {case.id!r} stands on line {names[case.name]} already")
        names[case.name] = number
        cases.append(case)
    if not cases:
        raise FileFormatError(f"{path}: expected at least one line of JSON, found none")
    return tuple(cases)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, value in json_lines(path, "expected a JSON object"):
        if not isinstance(value, dict):
            raise FileFormatError(f"{path}, line {number}: expected a JSON object, got {json.dumps(value)[:60]}")
        yield number, value


def _shape_of(members: Mapping[str, Any], where: str) -> str:
    if "Correct Answer" in members:
        return "gpqa"
    if "answer_letter" in members:
        return "supergpqa"
    if "choices" in members or "options" in members:
        return "mmlu"
    if members.keys() & {"problem", "Problem", "question", "Question"} and members.keys() & {"answer", "Answer"}:
        return "aime"
    raise FileFormatError(
        f"{where}: expected the keys of GPQA, SuperGPQA, AIME or MMLU, got {', '.join(sorted(members)[:12])}; "
        "docs/eval.md has an example of each"
    )


class _Line:
    """One object of a file. `number` is its line's."""

    def __init__(self, members: Mapping[str, Any], number: int) -> None:
        self.number = number
        self._members = members

    def value(self, *names: str) -> Any:
        """The first of these keys that is there; FileFormatError where none is."""
        for name in names:
            if self._members.get(name) is not None:
                return self._members[name]
        raise FileFormatError(f"expected a key {' or '.join(map(repr, names))}, there is none")

    def text(self, *names: str) -> str:
        """A text that is not empty; numbers are taken as they are written."""
        return _as_text(self.value(*names), names[0])

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.value(*names)
        if not isinstance(value, list):
            raise FileFormatError(f"{names[0]!r}: expected a list of texts, got {_shown(value)}")
        return tuple(_as_text(item, f"{names[0]}[{index}]") for index, item in enumerate(value))

    def known(self, *names: str) -> str:
        """The first of these that is a text or a number, in one line; "" where none is."""
        found = (self._members.get(name) for name in names)
        return next((" ".join(str(value).split()) for value in found if isinstance(value, str | int)), "")

    def id(self, *names: str) -> str:
        """A word; the line's number where there is none."""
        return _NO_WORD.sub("_", self.known(*names)).strip("_") or f"line-{self.number}"


def _gpqa(line: _Line) -> Case:
    question, right = line.text("Question"), line.text("Correct Answer")
    choices = [right, *(line.text(name) for name in _WRONG_ANSWERS)]
    order = sorted(range(len(choices)), key=lambda index: _mixed(question, index))
    return _chosen(
        line,
        "gpqa",
        line.id("Record ID", "id"),
        line.known("Subdomain", "High-level domain"),
        question,
        tuple(choices[index] for index in order),
        LETTERS[order.index(0)],
    )


def _mixed(question: str, index: int) -> bytes:
    return hashlib.sha256(f"{index} {question}".encode("utf-8", "replace")).digest()


def _supergpqa(line: _Line) -> Case:
    domain = line.known("subfield", "field", "discipline")
    question, choices = line.text("question"), line.texts("options")
    return _chosen(line, "supergpqa", line.id("uuid", "id"), domain, question, choices, line.text("answer_letter"))


def _mmlu(line: _Line) -> Case:
    choices, answer = line.texts("choices", "options"), line.value("answer", "answer_index")
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not 0 <= answer < min(len(choices), len(LETTERS)):
            raise FileFormatError(f"'answer': expected a number from 0 to {len(choices) - 1}, got {answer}")
        answer = LETTERS[answer]
    domain, question = line.known("subject", "category"), line.text("question")
    return _chosen(line, "mmlu", line.id("question_id", "id"), domain, question, choices, _as_text(answer, "answer"))


def _chosen(
    line: _Line, source: str, name: str, domain: str, question: str, choices: tuple[str, ...], answer: str
) -> Case:
    return Case(source, name, domain, _title(line, question), question, choices, answer.strip(), "choice")


def _aime(line: _Line) -> Case:
    question = line.text("problem", "Problem", "question", "Question")
    answer = line.text("answer", "Answer").strip()
    if not _WHOLE.fullmatch(answer):
        raise FileFormatError(f"'answer': expected an integer, got {_shown(answer)}")
    name = line.id("id", "ID", "problem_idx")
    title = _title(line, question)
    return Case("aime", name, line.known("problem_type", "year"), title, question, (), str(int(answer)), "integer")


def _title(line: _Line, question: str) -> str:
    return line.known("title") or " ".join(question.split())[:_TITLE_CHARACTERS]


def _as_text(value: Any, name: str) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise FileFormatError(f"{name!r}: expected a text that is not empty, got {_shown(value)}")
    return str(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]


SHAPES: Mapping[str, Callable[[_Line], Case]] = {
    "gpqa": _gpqa,
    "supergpqa": _supergpqa,
    "aime": _aime,
    "mmlu": _mmlu,
}
