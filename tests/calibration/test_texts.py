"""What the corpus says is true: sums add up, diffs apply, translations match, needles are in their hay."""

import json
import re
import subprocess
from fractions import Fraction
from math import comb, gcd, prod
from pathlib import Path

import pytest

from whitedwarf.calibration.agent import test_log
from whitedwarf.calibration.code_samples import diff, numbered, path_of, sample
from whitedwarf.calibration.code_templates import LANGUAGES
from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.documents import needle, structured
from whitedwarf.calibration.languages import NUM_SENTENCES, SENTENCES, TONGUES, passage
from whitedwarf.calibration.maths import problem
from whitedwarf.calibration.words import indefinite, moments

test_log.__test__ = False  # type: ignore[attr-defined]


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def is_true(question: str, answer: str) -> bool:
    """Worked out from the question's own numbers, in another way than the answer was."""
    asked = numbers(question)
    match question.split():
        case ["Compute", *_]:
            return int(answer) == asked[0] * asked[1]
        case ["Solve", *_]:
            a, b, c = asked
            return a * Fraction(answer.removeprefix("x = ")) + b == c
        case ["Find", "all", *_]:
            _, b, c, _ = asked
            return sorted(numbers(answer)) == [x for x in range(-200, 201) if x * x + b * x + c == 0]
        case ["Find", "the", *_]:
            a, b = asked
            return numbers(answer) == [gcd(a, b), a * b // gcd(a, b)]
        case ["Factor", *_]:
            found = numbers(answer)
            factors = found[1:] or found
            return prod(factors) == asked[0] and all(n % d for n in factors for d in range(2, int(n**0.5) + 1))
        case ["What", "is", "the", "sum", *_]:
            count, one, two, *_ = asked
            return int(answer) == sum(one + (two - one) * i for i in range(count))
        case ["Two", *_]:
            distance, first, second = asked
            hours, where = numbers(answer)
            return (first + second) * hours == distance and where == first * hours
        case ["A", *_]:
            price, up, down = asked
            return abs(Fraction(answer.split()[0]) - Fraction(price * (100 + up) * (100 - down), 10000)) <= Fraction(
                1, 200
            )
        case [_, "tickets", *_]:
            both, cheap, dear, total = asked
            x, y = numbers(answer)
            return x + y == both and cheap * x + dear * y == total
        case _:
            return int(answer) == comb(*asked)


def test_every_problem_is_solved_rightly() -> None:
    seen = set()
    for seed in range(600):
        question, steps, answer = problem(Dice("maths", seed))
        assert steps
        assert is_true(question, answer), (question, answer)
        for left, right in re.findall(r"(?:^|: )(-?\d+) ([×+/·-] -?\d+ = -?\d+)\.?$", "\n".join(steps), re.MULTILINE):
            sign, second, _, result = right.split()
            wanted = {"×": int(left) * int(second), "·": int(left) * int(second), "+": int(left) + int(second)}
            wanted |= {"-": int(left) - int(second), "/": Fraction(int(left), int(second))}
            assert wanted[sign] == int(result), (left, right)
        seen.add(re.sub(r"\d+", "", question)[:12])
    assert len(seen) >= 10


def test_all_languages_have_all_sentences_with_the_same_places() -> None:
    assert len(TONGUES) == 12
    for row in range(NUM_SENTENCES):
        places = {tongue: sorted(re.findall(r"{(\w+)}", sentences[row])) for tongue, sentences in SENTENCES.items()}
        assert len(set(map(tuple, places.values()))) == 1, places
    assert len({len(sentences) for sentences in SENTENCES.values()}) == 1
    texts = [sentence for sentences in SENTENCES.values() for sentence in sentences]
    assert len(set(texts)) == len(texts)


def test_a_passage_has_the_same_names_in_every_language() -> None:
    text = passage(Dice(5), 40)
    for tongue in TONGUES:
        written = text.written(tongue, 3)
        assert written.count("\n\n") == 2
        assert "{" not in written
    assert set(numbers(text.written("German"))) >= {
        number
        for row, (_, _, number) in zip(text.rows, text.fillings, strict=True)
        if "{n}" in SENTENCES["German"][row]
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_template_is_filled_and_has_one_mistake(language: str) -> None:
    for seed in range(40):
        one = sample(Dice(language, seed), language)
        assert not set("«»⟦⟧") & set(one.code + one.broken)
        lines = list(zip(one.code.split("\n"), one.broken.split("\n"), strict=True))
        assert [(a, b) for a, b in lines if a != b] == [(one.right_line, one.wrong_line)]
        assert one.function in one.code or language in ("SQL", "C#", "HTML")


def test_python_samples_are_python() -> None:
    for seed in range(60):
        one = sample(Dice("python", seed), "Python")
        compile(one.code, "sample.py", "exec")
        compile(one.broken, "sample.py", "exec")


def test_diffs_apply(tmp_path: Path) -> None:
    for seed in range(20):
        dice = Dice("diff", seed)
        one = sample(dice)
        path = path_of(dice, one.tongue)
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(one.broken)
        patch = diff(path, one.broken, one.wrong_line, one.right_line) + "\n"
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch.encode(), check=True)
        assert (tmp_path / path).read_text() == one.code


def test_structured_answers_are_what_they_say() -> None:
    kinds = set()
    for seed in range(120):
        question, _, answer = structured(Dice("data", seed))
        kinds.add(question.split()[0])
        for block in re.findall(r"```json\n(.*?)\n```", answer, re.DOTALL) or [answer] * answer.startswith(("{", "[")):
            json.loads(block)
        if question.startswith("My parser"):
            broken = re.search(r"```json\n(.*?)\n```", question, re.DOTALL)
            assert broken is not None
            with pytest.raises(ValueError, match="delimiter"):
                json.loads(broken[1])
        if question.startswith("Which active"):
            table = re.search(r"```json\n(.*?)\n```", question, re.DOTALL)
            assert table is not None
            limit = numbers(question)[0]
            kept = [row for row in json.loads(table[1]) if row["active"] and row["amount"] > limit]
            assert json.loads(answer)["ids"] == [row["id"] for row in kept]
            assert json.loads(answer)["total"] == pytest.approx(sum(row["amount"] for row in kept))
    assert len(kinds) == 5


def test_needles_are_in_their_hay() -> None:
    lengths = []
    for seed in range(40):
        question, _, answer = needle(Dice("needle", seed))
        assert answer.removeprefix("The code of the ").split(" is ")[1].rstrip(".") in question
        lengths.append(len(question))
    assert max(lengths) > 20_000


def test_small_things() -> None:
    assert indefinite("old oven") == "an old oven"
    assert numbered("a\nb\n", 9) == "     9\ta\n    10\tb"
    times = moments(Dice(1), 30)
    assert times == sorted(times)
    one = sample(Dice(1))
    assert "passed" in test_log(Dice(2), one, "a.py", failed=False)
    assert "1 failed" in test_log(Dice(2), one, "a.py", failed=True)
