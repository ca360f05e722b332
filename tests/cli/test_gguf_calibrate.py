"""`gguf calibrate`: its files, and that the other commands read them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from whitedwarf.calibration.dataset import read_blocks
from whitedwarf.calibration.records import records, rendered
from whitedwarf.cli.recipe_conversation import read_conversation
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.special import PUBLISHED
from whitedwarf.weights.store import bundled_model

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def calibrate(in_process: Call) -> Call:
    return lambda *words: in_process(["gguf", "calibrate", *map(str, words)])


@pytest.mark.parametrize("version", list(ModelVersion))
def test_the_text_has_the_rendered_conversations(calibrate: Call, tmp_path: Path, version: ModelVersion) -> None:
    out = tmp_path / "c.txt"
    code, told, _ = calibrate("-o", out, "--records", 30, "--seed", 4, "--recipe", version.lower())
    assert code == 0
    assert "30 conversations" in told
    assert read_blocks(out.read_text("utf-8"), "c.txt") == [rendered(record, version) for record in records(30, 4)]


def test_the_manifest_tells_what_there_is(calibrate: Call, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("c.txt", "c.json", "c.jsonl")]
    words = ["--manifest", files[1], "--jsonl", files[2], "--json", "-m", bundled_model()]
    code, told, _ = calibrate("-o", files[0], "--records", 25, "--categories", "maths, chat", "--think", "on", *words)
    assert code == 0
    facts = json.loads(files[1].read_text())
    assert json.loads(told) == {"file": str(files[0]), **facts}
    assert facts["sha256"] == hashlib.sha256(files[0].read_bytes()).hexdigest()
    assert facts["modes"] == {"think": 25}
    assert sum(facts["categories"].values()) == facts["records"] == 25
    assert set(facts["categories"]) == {"maths", "chat"}
    assert facts["tokens"] == sum(facts["tokens_by_category"].values()) > 1000


def test_the_lines_are_conversations_that_recipe_render_reads(calibrate: Call, tmp_path: Path) -> None:
    assert calibrate("-o", tmp_path / "c.txt", "--jsonl", tmp_path / "c.jsonl", "--records", 20)[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text("utf-8").splitlines()]
    for line, record in zip(lines, records(20, 0), strict=True):
        assert line["category"] == record.category
        conversation = read_conversation(line["conversation"], PUBLISHED)
        for version in ModelVersion:
            assert encode(conversation, version).segments == encode(record.conversation, version).segments


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "c.txt", "--categories", "poems"],
        ["-o", "c.txt", "--categories", ","],
        ["-o", "c.txt", "--records", "0"],
        ["-o", "c.txt", "--jsonl", "./c.txt"],
        ["-o", "c.txt", "--jsonl", "../{folder}/c.txt"],
        ["-o", "none/c.txt"],
        ["-o", "c.txt", "--recipe", "v5"],
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_written(
    calibrate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert calibrate(*(word.format(folder=tmp_path.name) for word in words))[0] == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_small_corpus_reaches_every_expert_of_nano(in_process: Call, tmp_path: Path) -> None:
    out = tmp_path / "c.txt"
    words = ["-o", str(out), "--records", "40", "--recipe", "v4.1"]
    assert in_process(["gguf", "calibrate", *words])[0] == 0
    collected = ["gguf", "imatrix", str(out), "-o", str(tmp_path / "i.dat"), "--max-tokens", "20000", "--json"]
    code, told, _ = in_process(collected)
    assert code == 0
    assert json.loads(told)["experts_never_seen"] == 0
