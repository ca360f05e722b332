"""Questions of the user's own, in four published shapes."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.case import Case
from whitedwarf.evals.loaders import SHAPES, read_cases

GPQA = {
    "Record ID": "rec 1/2",
    "Subdomain": "Optics",
    "Question": "Which?",
    "Correct Answer": "right",
    "Incorrect Answer 1": "one",
    "Incorrect Answer 2": "two",
    "Incorrect Answer 3": "three",
    "Explanation": "…",
}
SUPERGPQA = {
    "uuid": "u-1",
    "question": "Which?",
    "options": list("abcdefghij"),
    "answer": "j",
    "answer_letter": "J",
    "subfield": "Law",
    "difficulty": "hard",
}
AIME = {"id": "2025-I-1", "problem": "How many?", "answer": "070", "solution": "…"}
MMLU = {"question": "Which?", "subject": "law", "choices": ["a", "b", "c", "d"], "answer": 2}
MMLU_PRO = {"question_id": 70, "question": "Which?", "options": list("abcdefghij"), "answer": "I", "answer_index": 8}


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]
    def load(*lines: Any, shape: str | None = None) -> tuple[Case, ...]:
        path = tmp_path / "cases.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return read_cases(path, shape)

    return load


def test_all_shapes_are_told_by_their_keys(load) -> None:  # type: ignore[no-untyped-def]
    (gpqa,) = load(GPQA)
    assert (gpqa.name, gpqa.kind, gpqa.domain) == ("gpqa/rec_1_2", "choice", "Optics")
    assert gpqa.choices["ABCD".index(gpqa.answer)] == "right"
    assert sorted(gpqa.choices) == ["one", "right", "three", "two"]
    (supergpqa,) = load(SUPERGPQA)
    assert (supergpqa.name, supergpqa.answer, len(supergpqa.choices)) == ("supergpqa/u-1", "J", 10)
    (aime,) = load(AIME)
    assert (aime.name, aime.answer, aime.kind, aime.choices) == ("aime/2025-I-1", "70", "integer", ())
    (mmlu,) = load(MMLU)
    assert (mmlu.name, mmlu.answer, mmlu.domain) == ("mmlu/line-1", "C", "law")
    (pro,) = load(MMLU_PRO)
    assert (pro.name, pro.answer, pro.choices[8]) == ("mmlu/70", "I", "i")


def test_variants_that_are_about(load) -> None:  # type: ignore[no-untyped-def]
    assert load({"Problem": "How many?", "Answer": 0, "ID": "x"})[0].answer == "0"
    assert load({"question": "How many?", "answer": ["70"]})[0].answer == "70"
    assert load({"problem_idx": 3, "problem": "How many?", "answer": 7})[0].id == "3"
    assert load({"question": "Which?", "choices": ["a", "a"], "answer": "B"})[0].answer == "B"


def test_the_right_answer_of_gpqa_is_anywhere_and_always_at_the_same_place(load) -> None:  # type: ignore[no-untyped-def]
    lines = [GPQA | {"Question": f"Which {n}?", "Record ID": str(n)} for n in range(200)]
    cases = load(*lines)
    assert cases == load(*lines)
    assert all(30 < [case.answer for case in cases].count(letter) < 75 for letter in "ABCD")


def test_a_byte_order_mark_and_empty_lines_are_no_trouble(load) -> None:  # type: ignore[no-untyped-def]
    cases = load("\ufeff" + json.dumps(AIME), "", "  ", AIME | {"id": "2"})
    assert [case.id for case in cases] == ["2025-I-1", "2"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({k: v for k, v in GPQA.items() if k != "Incorrect Answer 2"}, "expected a key 'Incorrect Answer 2'"),
        (GPQA | {"Incorrect Answer 2": " "}, "'Incorrect Answer 2': expected a text that is not empty"),
        (GPQA | {"Question": None}, "expected a key 'Question', there is none .read as gpqa"),
        (SUPERGPQA | {"answer_letter": "K"}, "answer: expected one letter of ABCDEFGHIJ, got 'K'"),
        (SUPERGPQA | {"options": "abc"}, "'options': expected a list of texts"),
        (SUPERGPQA | {"options": ["a", None]}, "options.1.': expected a text"),
        (SUPERGPQA | {"options": list("abcdefghijk")}, "expected 2 to 10 of them, got 11"),
        (AIME | {"answer": "7.5"}, "'answer': expected an integer, got \"7.5\""),
        (AIME | {"answer": True}, "'answer': expected a text"),
        (AIME | {"answer": "9" * 5000}, "expected an integer"),
        (MMLU | {"answer": 4}, "'answer': expected a number from 0 to 3, got 4"),
        (MMLU | {"answer": -1}, "expected a number from 0 to 3"),
        (MMLU | {"answer": "E"}, "expected one letter of ABCD"),
        (AIME | {"problem": "\ud800"}, "half of a surrogate pair"),
        ("[1]", "expected a JSON object, got"),
        ("{", "it is not JSON"),
        ({"text": "?"}, "expected the keys of GPQA, SuperGPQA, AIME or MMLU, got text"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(line: Any, told: str, load) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileFormatError, match=told) as raised:
        load("", line)
    assert "line 2" in str(raised.value)


def test_a_shape_can_be_named(load) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileFormatError, match="read as aime; --shape names another"):
        load(GPQA, shape="aime")


def test_ids_come_once(load) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileFormatError, match="line 3: the id '2025-I-1' stands on line 1 already"):
        load(AIME, AIME | {"id": "x"}, AIME)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_cases(tmp_path)
    path = tmp_path / "x"
    path.write_bytes(b"\xff")
    with pytest.raises(FileFormatError, match="expected UTF-8"):
        read_cases(path)
    path.write_bytes(b"\n")
    with pytest.raises(FileFormatError, match="expected at least one line"):
        read_cases(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5
)


@given(st.sampled_from([GPQA, SUPERGPQA, AIME, MMLU, MMLU_PRO]), st.data(), st.sampled_from([None, *SHAPES]))
def test_whatever_stands_there_it_is_a_case_or_an_error(tmp_path_factory, line, data, shape) -> None:  # type: ignore[no-untyped-def]
    changed = line | {data.draw(st.sampled_from(sorted(line))): data.draw(JSON)}
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(changed))
    with contextlib.suppress(FileFormatError):
        read_cases(path, shape)
