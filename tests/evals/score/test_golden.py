"""The engine held to golden vectors: nano's own, and transformers' of the oracles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oracle.engines import model_at, oracle_model
from oracle.fixtures import ROOT, oracle_file
from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.case_files import read_text
from whitedwarf.evals.score.checking import Verdict, check_golden, golden_case, golden_ids, tops_of
from whitedwarf.evals.score.golden_vectors import GoldenCase, Top, read_golden
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.transformer import Transformer
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

FOLDER = ROOT / "tests" / "golden" / "score"
ORACLES = {"tinyA": "tinyA/tiny-f32.gguf", "tinyQ": "tinyQ/tiny-iq2.gguf"}
AGAIN = "`whitedwarf score golden --from tests/golden/score/nano.vec -o tests/golden/score/nano.vec` makes them again"


def ids_of(case: GoldenCase, model_file: Path) -> list[int]:
    with open_gguf(model_file) as gguf:
        tokenizer = Tokenizer.from_metadata(gguf.metadata)
    return golden_ids(tokenizer, case.mode, read_text(FOLDER / case.prompt))


def verdict(case: GoldenCase, model: Transformer, file: Path, chunk: int = 512) -> Verdict:
    return check_golden(model, case, ids_of(case, file), chunk)


@pytest.mark.parametrize("case", read_golden(FOLDER / "nano.vec"), ids=lambda case: case.id)
def test_nano_gives_its_golden_vectors(case: GoldenCase) -> None:
    nano = model_at(bundled_model(), kv_cache="packed", quality=False)
    found = verdict(case, nano, bundled_model())
    assert found.holds, f"{found.faults}; only if nano's weights have changed: {AGAIN}"
    assert found.max_delta < 2, f"a kernel or a row has drifted; only if nano's weights have changed: {AGAIN}"


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name in ORACLES for case in read_golden(FOLDER / f"{name}.vec")],
    ids=lambda value: getattr(value, "id", value),
)
def test_oracles_give_the_golden_vectors_of_transformers(name: str, case: GoldenCase) -> None:
    found = verdict(case, oracle_model(ORACLES[name]), oracle_file(ORACLES[name]))
    assert found.holds, found.faults
    assert found.max_delta < 1e-3


def test_the_chunks_make_no_difference() -> None:
    nano = model_at(bundled_model(), kv_cache="packed", quality=False)
    case = next(case for case in read_golden(FOLDER / "nano.vec") if case.id == "ledger-1000")
    ids = ids_of(case, bundled_model())
    assert golden_case(nano, case, ids, 512, 64) == golden_case(nano, case, ids, 77, 64)


# What the checks notice: a case is damaged, and the model is the same.


@pytest.fixture(scope="module")
def case() -> GoldenCase:
    return read_golden(FOLDER / "tinyA.vec")[1]


def damaged(case: GoldenCase, top: tuple[Top, ...]) -> tuple[str, ...]:
    file = oracle_file(ORACLES["tinyA"])
    return verdict(replace(case, top=top), oracle_model(ORACLES["tinyA"]), file).faults


def strangers(case: GoldenCase, count: int, first: int) -> tuple[Top, ...]:
    """The case's tops with `count` of them from rank `first` on replaced by tokens that are not among them."""
    known = {top.id for top in case.top}
    others = [token_id for token_id in range(768) if token_id not in known]
    new = [Top(others[i], case.top[first + i].logit) for i in range(count)]
    return (*case.top[:first], *new, *case.top[first + count :])


def test_another_likeliest_token_is_noticed(case: GoldenCase) -> None:
    first, second, *rest = case.top
    faults = damaged(case, (Top(second.id, first.logit), Top(first.id, second.logit), *rest))
    assert faults == (f"the likeliest token is {first.id}, expected {second.id}",)


@pytest.mark.parametrize(
    ("first", "allowed", "said"), [(1, 1, "likeliest 5"), (5, 5, "likeliest 20"), (20, 24, "likeliest 64")]
)
def test_too_few_common_tokens_are_noticed(case: GoldenCase, first: int, allowed: int, said: str) -> None:
    assert not any(said in fault for fault in damaged(case, strangers(case, allowed, first)))
    assert any(said in fault for fault in damaged(case, strangers(case, allowed + 1, first)))


def test_a_logit_that_is_far_off_is_noticed(case: GoldenCase) -> None:
    top = (replace(case.top[0], logit=case.top[0].logit + 8.1), *case.top[1:])
    assert any("a logit differs by 8.1" in fault for fault in damaged(case, top))


def test_tokens_that_the_model_has_not_are_refused(case: GoldenCase) -> None:
    with pytest.raises(FileFormatError, match="has token 768, this model has 768"):
        damaged(case, (*case.top[:-1], Top(768, case.top[-1].logit)))


def test_equal_logits_are_told_by_the_lower_id() -> None:
    row = np.array([1.0, 3.0, 3.0, 2.0], np.float32)
    assert [top.id for top in tops_of(row, 3)] == [1, 2, 3]
