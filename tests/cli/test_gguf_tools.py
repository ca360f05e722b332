"""gguf split, merge, splice, and what verify measures and compares."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from whitedwarf.cli.gguf_splice import parse_layers
from whitedwarf.cli.sizes import parse_size
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def model(babbler: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(babbler, tmp_path / "m.gguf"))


def test_split_by_size_and_merge_give_the_file_back(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    code, out, err = in_process(["gguf", "split", str(model), str(tmp_path / "part.gguf"), "--max-size", "1M"])
    paths = sorted(tmp_path.glob("part-*"))
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()] == list(map(str, paths))
    assert len(paths) > 1
    assert max(path.stat().st_size for path in paths) <= 1_000_000
    assert "writing 100%" in err
    code, out, _ = in_process(["gguf", "merge", str(paths[1]), str(tmp_path / "again.gguf")])
    assert (code, (tmp_path / "again.gguf").read_bytes()) == (0, model.read_bytes())
    assert out.startswith(f"{tmp_path / 'again.gguf'}  ")
    assert sorted(tmp_path.iterdir()) == sorted([model, tmp_path / "again.gguf", *paths])


def test_split_by_tensors_with_the_metadata_alone(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    words = ["gguf", "split", str(model), str(tmp_path / "part"), "--max-tensors", "30", "--metadata-alone"]
    code, out, _ = in_process(words)
    counts = [int(line.split("  ")[2].split()[0]) for line in out.splitlines()]
    assert (code, counts[:2]) == (0, [0, 30])
    assert in_process(["gguf", "verify", str(tmp_path / f"part-00001-of-{len(counts):05}.gguf")])[0] == 0


@pytest.mark.parametrize("command", ["split", "merge", "splice"])
def test_a_dry_run_writes_nothing(in_process: InProcess, model: Path, tmp_path: Path, command: str) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    with open_gguf(model) as opened:
        half = str(len(opened.tensors) // 2)
    assert in_process(["gguf", "split", str(model), str(parts / "p"), "--max-tensors", half])[0] == 0
    other = tmp_path / "other.gguf"
    synthesise(other, "tiny", 2, quant="q4")
    words = {
        "split": [str(model), str(tmp_path / "x.gguf"), "--max-tensors", "10"],
        "merge": [str(next(parts.iterdir())), str(tmp_path / "x.gguf")],
        "splice": [str(model), str(other), str(tmp_path / "x.gguf"), "--layers", "0-1"],
    }[command]
    before = sorted(tmp_path.rglob("*"))
    code, out, _ = in_process(["gguf", command, *words, "--dry-run"])
    assert (code, bool(out)) == (0, True)
    assert sorted(tmp_path.rglob("*")) == before
    assert in_process(["gguf", command, *words])[1] == out


def test_splice_makes_a_model_that_runs(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    synthesise(tmp_path / "q4.gguf", "tiny", 2, quant="q4")
    out = tmp_path / "mixed.gguf"
    code, text, _ = in_process(["gguf", "splice", str(model), str(tmp_path / "q4.gguf"), str(out), "--layers", "1"])
    assert code == 0
    assert text.splitlines()[1:] == ["layer 1: Q8_0 Q8_0 Q8_0 -> Q4_K Q4_K Q4_K (gate, up, down)"]
    assert in_process(["gguf", "verify", str(out)])[0] == 0
    assert in_process(["run", "-m", str(out), "--nothink", "-n", "2", "-p", "x", "--seed", "1"])[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split", "m.gguf", "x.gguf"], "expected one of --max-size and --max-tensors"),
        (["split", "m.gguf", "x.gguf", "--max-size", "1M", "--max-tensors", "2"], "expected one of"),
        (["split", "m.gguf", "x.gguf", "--max-size", "huge"], "expected a size like 4G"),
        (["split", "m.gguf", "x.gguf", "--max-size", "1k"], "the metadata takes"),
        (["split", "m.gguf", "x.gguf", "--max-tensors", "5000"], "nothing to split"),
        (["split", "m.gguf", "no/x.gguf", "--max-tensors", "40"], "no: no such folder"),
        (["split", "no.gguf", "x.gguf", "--max-tensors", "40"], "no.gguf: no such file"),
        (["merge", "m.gguf", "x.gguf"], "one file already"),
        (["splice", "m.gguf", "m.gguf", "x.gguf", "--layers", "1"], "the base and the donor at once"),
        (["splice", "m.gguf", "m.gguf", "x.gguf", "--layers", "3-1"], "--layers: got '3-1'"),
    ],
)
def test_wrong_words_are_one_line_and_write_nothing(
    in_process: InProcess, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = in_process(["gguf", *words])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == [model]


def test_what_is_there_stays_unless_forced(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    words = ["gguf", "split", str(model), str(tmp_path / "p"), "--max-tensors", "40"]
    assert in_process(words)[0] == 0
    code, _, err = in_process(words)
    assert (code, "exists already" in err) == (2, True)
    assert in_process([*words, "--force"])[0] == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4_000_000_000), ("1.5k", 1500), ("2GiB", 2 << 30), ("500 M", None), ("7", 7), ("3mb", 3_000_000)],
)
def test_sizes(text: str, size: int | None) -> None:
    if size is not None:
        assert parse_size("--max-size", text) == size
        return
    with pytest.raises(UsageError, match="expected a size"):
        parse_size("--max-size", text)


@pytest.mark.parametrize("text", ["0", "0.1", "i", "4iB", "-1", "", "1e3", "4G4"])
def test_senseless_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size: got"):
        parse_size("--max-size", text)


def test_layers_are_numbers_and_ranges() -> None:
    assert parse_layers("37-42,0-2, 7") == {37, 38, 39, 40, 41, 42, 0, 1, 2, 7}
    for text in ("", "a", "1-", "-1", "2-1", "1,,2", "0-512", "1-2-3"):
        with pytest.raises(UsageError, match="--layers: got"):
            parse_layers(text)


def test_verify_shows_statistics(in_process: InProcess, model: Path) -> None:
    code, out, _ = in_process(["gguf", "verify", str(model), "--stats"])
    lines = out.splitlines()
    with open_gguf(model) as opened:
        names = list(opened.tensors)
    assert (code, lines[-1]) == (0, f"{model}: sound")
    assert [line.split()[0] for line in lines[: len(names) + 1]] == ["tensor", *names]
    code, out, _ = in_process(["gguf", "verify", str(model), "--stats", "--json"])
    rows = json.loads(out)["statistics"]
    assert (code, [row["name"] for row in rows]) == (0, names)
    assert all(row["min"] <= row["mean"] <= row["max"] and row["num_nan"] == 0 for row in rows)
    assert "statistics" not in json.loads(in_process(["gguf", "verify", str(model), "--json"])[1])


def test_verify_writes_digests_and_finds_what_changed(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    sums = tmp_path / "m.sha256"
    assert in_process(["gguf", "verify", str(model), "--write-sha256", str(sums)])[0] == 0
    assert in_process(["gguf", "split", str(model), str(tmp_path / "p"), "--max-tensors", "40"])[0] == 0
    shard = next(tmp_path.glob("p-00002-*"))
    assert in_process(["gguf", "verify", str(shard), "--check-sha256", str(sums)])[0] == 0
    with open_gguf(model) as opened:
        offset = opened.tensors["blk.1.attn_q_a.weight"].offset_bytes + 2
    with model.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    code, out, _ = in_process(["gguf", "verify", str(model), "--check-sha256", str(sums)])
    errors = [line for line in out.splitlines() if line.startswith("error: ")]
    assert (code, len(errors)) == (1, 1)
    assert errors[0].startswith("error: blk.1.attn_q_a.weight: its SHA-256 is ")


def test_verify_writes_no_digests_of_an_unsound_model(in_process: InProcess, model: Path, tmp_path: Path) -> None:
    with open_gguf(model) as opened:
        offset = opened.tensors["output_norm.weight"].offset_bytes
    with model.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x00\x00\xc0\x7f")
    code, out, err = in_process(["gguf", "verify", str(model), "--stats", "--write-sha256", str(tmp_path / "s")])
    assert (code, "NOT sound" in out, "not written" in err) == (1, True, True)
    assert not (tmp_path / "s").exists()


def test_verify_does_not_write_digests_over_the_model(in_process: InProcess, model: Path) -> None:
    before = model.read_bytes()
    code, _, err = in_process(["gguf", "verify", str(model), "--write-sha256", str(model)])
    assert (code, "which is being read" in err) == (2, True)
    assert model.read_bytes() == before
