"""`score run`, `compare`, `vectors` and `golden` on nano; its own server stands in for the official one."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whitedwarf.bench.serve_process import started
from whitedwarf.cli.loading import open_model
from whitedwarf.cli.output_file import write_text
from whitedwarf.cli.perplexity import PREFIX_TOKENS, measure
from whitedwarf.config import ModelSettings
from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.score import measuring
from whitedwarf.evals.score.case_files import read_manifest
from whitedwarf.evals.score.golden_vectors import read_golden
from whitedwarf.evals.score.likelihood import Forced, forced
from whitedwarf.evals.score.measuring import Score
from whitedwarf.evals.score.score_part import ScorePart
from whitedwarf.evals.score.score_table import read_table

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]
QUESTIONS = {"capital": "What is the capital of France?", "hello": "Hello", "colour": "Name a colour."}


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    """A manifest of three cases: two that nano answers so, one that it does not."""
    answers = {
        "capital": "The capital of France is Paris.",
        "hello": "Hello! How can I help you today?",
        "colour": "xyzzy",
    }
    for name, text in QUESTIONS.items():
        (tmp_path / f"{name}.q").write_text(text)
        (tmp_path / f"{name}.a").write_text(answers[name])
    path = tmp_path / "manifest.tsv"
    path.write_text("".join(f"{name}\t{name}.q\t{name}.a\t{name}.json\n" for name in QUESTIONS))
    return path


# run


def test_a_set_is_scored(in_process: InProcess, collected: Path, tmp_path: Path) -> None:
    code, out, err = in_process(["score", "run", str(collected), "-o", str(tmp_path / "out.tsv")])
    scores = {score.id: score for score in read_table(tmp_path / "out.tsv")}
    assert (code, out) == (0, "")
    assert list(scores) == list(QUESTIONS)
    assert scores["capital"].average_nll < scores["colour"].average_nll
    assert not scores["colour"].first_match
    assert "cases=3" in err


def test_the_totals_are_json_for_scripts(in_process: InProcess, collected: Path, tmp_path: Path) -> None:
    code, out, _ = in_process(["score", "run", str(collected.parent), "-o", str(tmp_path / "out.tsv"), "--json"])
    document = json.loads(out)
    scores = read_table(tmp_path / "out.tsv")
    assert code == 0
    assert document["cases"] == 3
    assert document["target_tokens"] == sum(score.target_tokens for score in scores)
    assert document["nll"] == pytest.approx(sum(score.nll for score in scores), abs=1e-6)


def test_forcing_agrees_with_perplexity() -> None:
    """Two ways to the same sum: as a continuation, and as a text whose first 32 tokens are given."""
    loaded = open_model(ModelSettings())
    ids = loaded.tokenizer().encode("The harbour was quiet, and the boats lay still in the morning light. " * 5)
    whole = measure(loaded.transformer, ids, len(ids))
    outcome = forced(loaded.transformer, ids[:PREFIX_TOKENS], ids[PREFIX_TOKENS:], 7)
    assert float(outcome.nll.sum()) == pytest.approx(whole.nll, abs=1e-9)


def test_cases_that_do_not_fit_are_refused_before_anything_runs(
    in_process: InProcess, collected: Path, tmp_path: Path
) -> None:
    code, _, err = in_process(["score", "run", str(collected), "-o", str(tmp_path / "out.tsv"), "--ctx", "16"])
    assert code == 1
    assert "tokens, the context is 16: raise --ctx" in err
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize(
    ("file", "said"), [("hello.a", "the continuation of hello is empty"), ("hello.q", "cannot read")]
)
def test_a_broken_set_is_named(in_process: InProcess, collected: Path, tmp_path: Path, file: str, said: str) -> None:
    if file.endswith("q"):
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text("")
    code, _, err = in_process(["score", "run", str(collected), "-o", str(tmp_path / "out.tsv")])
    assert code != 0
    assert said in err
    assert file in err


def test_the_table_never_replaces_what_is_read(in_process: InProcess, collected: Path) -> None:
    for file in ("manifest.tsv", "hello.q"):
        code, _, err = in_process(["score", "run", str(collected), "-o", str(collected.parent / file)])
        assert code == 2
        assert "which is being read" in err


def test_a_steered_model_scores_otherwise(in_process: InProcess, collected: Path, tmp_path: Path) -> None:
    loaded = open_model(ModelSettings())
    shape = loaded.gguf.metadata["deepseek4.block_count"], loaded.gguf.metadata["deepseek4.embedding_length"]
    directions = np.random.default_rng(1).normal(size=shape)
    (tmp_path / "d.f32").write_bytes((directions / np.linalg.norm(directions, axis=1)[:, None]).astype("<f4").tobytes())
    plain = ["score", "run", str(collected), "-o"]
    in_process([*plain, str(tmp_path / "a.tsv")])
    in_process([*plain, str(tmp_path / "b.tsv"), "--steering", str(tmp_path / "d.f32")])
    assert read_table(tmp_path / "a.tsv") != read_table(tmp_path / "b.tsv")
    code, out, _ = in_process(["score", "compare", str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")])
    assert code == 0
    assert "cases 3, " in out


def test_what_was_measured_before_a_stop_is_not_measured_again(
    in_process: InProcess, collected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out, part = tmp_path / "whole.tsv", tmp_path / "out.tsv", tmp_path / "out.tsv.part"
    in_process(["score", "run", str(collected), "-o", str(whole)])
    runs: list[str] = []
    scored = measuring.forced

    def stopping(*words: Any) -> Forced:
        runs.append("run")
        if len(runs) == 3:
            raise KeyboardInterrupt
        return scored(*words)

    monkeypatch.setattr(measuring, "forced", stopping)
    with pytest.raises(SystemExit, match="130"):
        in_process(["score", "run", str(collected), "-o", str(out)])
    assert part.exists()
    assert not out.exists()
    part.write_text(part.read_text() + '{"id": "colour", "pro')  # cut off in the middle of a line
    code, _, err = in_process(["score", "run", str(collected), "-o", str(out)])
    assert code == 0
    assert "has 2 of 3 cases: going on from there" in err
    assert len(runs) == 4
    assert out.read_bytes() == whole.read_bytes()
    assert not part.exists()


@pytest.mark.parametrize("text", ["", "{}\n", "\udcff", '{"backend": "cpu"}\n{"id": "x"}\n'])
def test_a_part_of_something_else_counts_as_none(
    in_process: InProcess, collected: Path, tmp_path: Path, text: str
) -> None:
    part = tmp_path / "out.tsv.part"
    part.write_bytes(text.encode("utf-8", "surrogateescape"))
    code, _, err = in_process(["score", "run", str(collected), "-o", str(tmp_path / "out.tsv")])
    assert code == 0
    assert "going on" not in err
    assert not part.exists()


def test_other_settings_do_not_go_on_from_a_part(collected: Path, tmp_path: Path) -> None:
    part = ScorePart(tmp_path / "out.tsv", {"quality": False}, write_text)
    part.begin([])
    part.add(Score("a", 1, 1, 0.1, True, 1))
    assert part.scores() == [Score("a", 1, 1, 0.1, True, 1)]

    def fails(path: Path, text: str) -> None:
        raise WhitedwarfError("no room")

    with pytest.raises(WhitedwarfError, match="no room"):
        ScorePart(tmp_path / "out.tsv", {"quality": False}, fails).begin(part.scores())
    assert part.scores() == [Score("a", 1, 1, 0.1, True, 1)]
    assert ScorePart(tmp_path / "out.tsv", {"quality": True}, write_text).scores() == []


def test_two_tables_are_compared(in_process: InProcess, collected: Path, tmp_path: Path) -> None:
    in_process(["score", "run", str(collected), "-o", str(tmp_path / "a.tsv")])
    code, out, _ = in_process(["score", "compare", str(tmp_path / "a.tsv"), str(tmp_path / "a.tsv"), "--json"])
    document = json.loads(out)
    assert (code, document["cases"], document["delta"]) == (0, 3, 0)
    assert document["wins"] == {"new": 0, "old": 0, "ties": 3}
    code, _, err = in_process(["score", "compare", str(collected), str(tmp_path / "a.tsv")])
    assert code == 1
    assert "expected a table that `whitedwarf score run` wrote" in err


# vectors


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nano's own server says, collected as from the official endpoint."""
    from whitedwarf.cli.main import main

    folder = tmp_path_factory.mktemp("official")
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": name, "prompt": text}) + "\n" for name, text in QUESTIONS.items()))
    with started([]) as server:
        words = ["score", "collect", "-o", str(folder / "set"), "--prompts", str(prompts), "--max-tokens", "6"]
        assert main([*words, "--endpoint", f"http://127.0.0.1:{server.port}/v1", "--top-logprobs", "20"]) == 0
    return folder / "set"


def test_nano_holds_to_what_its_own_server_said(in_process: InProcess, official: Path) -> None:
    code, out, _ = in_process(["score", "vectors", str(official / "official.vec"), "--max-delta", "0.001"])
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == [f"OK  {name}" for name in QUESTIONS]


def test_what_the_server_said_is_what_greedy_scoring_expects(
    in_process: InProcess, official: Path, tmp_path: Path
) -> None:
    in_process(["score", "run", str(official), "-o", str(tmp_path / "out.tsv")])
    capital = read_table(tmp_path / "out.tsv")[0]
    assert len(read_manifest(official)) == 3
    assert capital.greedy_lcp == capital.target_tokens


@pytest.mark.parametrize(
    ("kind", "said"),
    [("chosen", "is likelier by"), ("logprob", "more than 4 apart"), ("stranger", "no token is")],
)
def test_a_difference_is_told_and_counts(
    in_process: InProcess, official: Path, tmp_path: Path, kind: str, said: str
) -> None:
    lines = (official / "official.vec").read_text().splitlines()
    (step,) = [number for number, line in enumerate(lines) if line.startswith("step 1 ")][:1]
    _, index, chosen, count = lines[step].split()
    tops = [line.split() for line in lines[step + 1 : step + 1 + int(count)]]
    if kind == "chosen":
        lines[step] = f"step {index} {next(top[1] for top in tops if top[1] != chosen)} {count}"
    elif kind == "logprob":
        lines[step + 1] = f"top {tops[0][1]} {float(tops[0][2]) - 4.1}"
    else:
        lines[step + 1] = "top f09f99820a0a20f09f9982 -1"
    path = tmp_path / "changed.vec"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "prompts").symlink_to(official / "prompts")
    code, out, err = in_process(["score", "vectors", str(path)])
    assert code == 1
    assert out.startswith("ERR capital: 6 steps")
    assert said in out
    assert "OK  hello" in out
    assert "1 of 3 cases do not hold" in err
    code, out, _ = in_process(["score", "vectors", str(path), "--skip", "capital", "--json"])
    assert code == 0
    assert [case["id"] for case in json.loads(out)["cases"]] == ["hello", "colour"]


def test_to_leave_out_everything_is_no_check(in_process: InProcess, official: Path) -> None:
    skipped = [word for name in QUESTIONS for word in ("--skip", name)]
    code, out, err = in_process(["score", "vectors", str(official / "official.vec"), *skipped, "--json"])
    assert (code, out) == (2, "")
    assert "every case is left out" in err


def test_a_token_too_unlikely_for_a_number_is_not_compared(
    in_process: InProcess, official: Path, tmp_path: Path
) -> None:
    text = (official / "official.vec").read_text()
    lines = text.splitlines()
    lines[3] = " ".join([*lines[3].split()[:2], "-9999"])
    path = tmp_path / "unlikely.vec"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "prompts").symlink_to(official / "prompts")
    assert in_process(["score", "vectors", str(path)])[0] == 0


def test_missing_prompts_and_cases_are_named(in_process: InProcess, official: Path, tmp_path: Path) -> None:
    path = tmp_path / "alone.vec"
    path.write_bytes((official / "official.vec").read_bytes())
    code, _, err = in_process(["score", "vectors", str(path)])
    assert code == 2
    assert "capital needs prompts/capital.txt, which is neither beside it nor in a folder above" in err
    code, _, err = in_process(["score", "vectors", str(official / "official.vec"), "--skip", "nobody"])
    assert code == 2
    assert "there is no such case" in err


# golden


def test_golden_vectors_hold_for_the_model_that_they_were_made_of(
    in_process: InProcess, babbler: Path, tmp_path: Path
) -> None:
    (tmp_path / "tale.txt").write_text("Once upon a time there was a small boat.")
    vec = tmp_path / "own.vec"
    make = ["score", "golden", str(tmp_path / "tale.txt"), "-o", str(vec), "--mode", "text"]
    assert in_process([*make, "--frontier", "3", "--frontier", "8"])[0] == 0
    cases = read_golden(vec)
    assert [(case.id, case.frontier, case.prompt) for case in cases] == [
        ("tale-3", 3, "tale.txt"),
        ("tale-8", 8, "tale.txt"),
    ]
    assert [len(case.top) for case in cases] == [64, 64]
    code, out, _ = in_process(["score", "vectors", str(vec)])
    assert code == 0
    assert "largest difference 0.0000" in out


def test_another_model_is_noticed_and_made_again(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    (tmp_path / "tale.txt").write_text("Once upon a time there was a small boat.")
    vec, again = tmp_path / "own.vec", tmp_path / "again.vec"
    in_process(["score", "golden", str(tmp_path / "tale.txt"), "-o", str(vec)])
    before = vec.read_bytes()
    settings = ["--threads", "1", "--quality", "--kv-cache", "f32"]
    assert in_process(["score", "golden", "--from", str(vec), "-o", str(again), *settings])[0] == 0
    assert [case.id for case in read_golden(again)] == ["tale"]
    assert again.read_bytes() != before
    assert in_process(["score", "golden", "--from", str(vec), "-o", str(vec)])[0] == 0
    assert vec.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give prompts, or --from"),
        (["a.txt", "--from", "b.vec"], 2, "give prompts, or --from"),
        (["a.txt", "--frontier", "9999"], 2, "--frontier 9999"),
        (["missing.txt"], 2, "cannot read"),
        (["empty.txt", "--mode", "text"], 1, "is empty; expected a text"),
        (["two words.txt"], 1, "is no id"),
        (["a.txt", "--mode", "talk"], 2, "talk"),
    ],
)
def test_wrong_wishes_are_refused(
    in_process: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Some text.")
    (tmp_path / "two words.txt").write_text("Some text.")
    (tmp_path / "empty.txt").write_text("")
    found, _, err = in_process(["score", "golden", *words, "-o", "out.vec"])
    assert found == code
    assert said in err
    assert not (tmp_path / "out.vec").exists()


def test_a_bound_for_official_vectors_is_not_taken_for_golden_ones(in_process: InProcess, tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_text("case a chat 9 1 p 1\ntop 0 1 2\n")
    code, _, err = in_process(["score", "vectors", str(tmp_path / "a.vec"), "--max-delta", "1"])
    assert code == 2
    assert "--max-delta is for official vectors" in err


def test_the_page_names_only_flags_that_exist(in_process: InProcess, capsys: pytest.CaptureFixture[str]) -> None:
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    known = set()
    for name in ("collect", "run", "compare", "vectors", "golden"):
        known |= set(flag.findall(in_process(["score", name, "--help"])[1]))
    page = Path(__file__).parents[2] / "docs" / "score.md"
    assert set(flag.findall(page.read_text(encoding="utf-8"))) <= known


def test_the_manifest_is_never_written_over_also_where_its_folder_is_named(
    in_process: InProcess, collected: Path
) -> None:
    before = collected.read_bytes()
    for named in (collected, collected.parent):
        code, _, err = in_process(["score", "run", str(named), "-o", str(collected)])
        assert (code, "being read" in err) == (2, True)
    assert collected.read_bytes() == before
