"""`whitedwarf gguf quantize` from the outside: models that run, plans, comparisons, and being stopped."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakes.checkpoints import random_checkpoint
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]

WIDE = {"hidden_size": 256, "moe_intermediate_size": 256, "num_hidden_layers": 2, "compress_ratios": [0, 4]}
WIDE |= {"num_hash_layers": 1}
QUANTIZE = ["gguf", "quantize"]
UP = "blk.1.ffn_up_exps.weight"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(**WIDE).write(tmp_path_factory.mktemp("wide") / "release")


@pytest.fixture(scope="module")
def wide(release: Path) -> Path:
    convert(release, release.parent / "f16.gguf", ConvertOptions(outtype="f16"))
    return release.parent / "f16.gguf"


@pytest.mark.parametrize(
    ("words", "types"),
    [
        (["--recipe", "q2"], ("IQ2_XXS", "IQ2_XXS", "Q2_K")),
        (["--recipe", "q4"], ("Q4_K", "Q4_K", "Q4_K")),
        (["--recipe", "mxfp4"], ("MXFP4", "MXFP4", "MXFP4")),
        (["--recipe", "q2-q4", "--q4-layers", "1"], ("Q4_K", "Q4_K", "Q4_K")),
        (["--recipe", "q2-q4", "--q4-layers", "0"], ("IQ2_XXS", "IQ2_XXS", "Q2_K")),
        (["--recipe", "q2", "--routed-w2", "q4_k", "--tensor-type", "blk.1.ffn_up=q8_0"], ("IQ2_XXS", "Q8_0", "Q4_K")),
        (["--experts", "q2_k", "--embedding", "q8_0", "--dense", "f16"], ("Q2_K", "Q2_K", "Q2_K")),
    ],
)
def test_every_recipe_makes_a_model_that_runs(
    in_process: InProcess, wide: Path, tmp_path: Path, words: list[str], types: tuple[str, ...]
) -> None:
    target = tmp_path / "q.gguf"
    code, out, err = in_process([*QUANTIZE, str(wide), str(target), *words])
    assert (code, out.splitlines()[-1].split(":")[0]) == (0, str(target)), err
    with open_gguf(target) as model:
        found = tuple(model.tensors[f"blk.1.ffn_{part}_exps.weight"].type.name for part in ("gate", "up", "down"))
    assert found == types
    assert in_process(["gguf", "verify", str(target)])[0] == 0
    assert in_process(["run", "-m", str(target), "--nothink", "-n", "2", "-p", "x", "--seed", "1"])[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["q.gguf"]


def test_a_checkpoint_and_the_originals_flag_names(in_process: InProcess, release: Path, tmp_path: Path) -> None:
    words = ["--hf", str(release), "--out", str(tmp_path / "q.gguf"), "--experts", "q4_k", "--routed-down", "q8_0"]
    code, _, err = in_process([*QUANTIZE, *words])
    assert code == 0, err
    with open_gguf(tmp_path / "q.gguf") as model:
        assert model.tensors[UP].type is GgmlType.Q4_K
        assert model.tensors["blk.1.ffn_down_exps.weight"].type is GgmlType.Q8_0
        assert model.tensors["output.weight"].type is GgmlType.BF16


def test_a_dry_run_says_what_the_run_will_do(in_process: InProcess, wide: Path, tmp_path: Path) -> None:
    words = [*QUANTIZE, str(wide), str(tmp_path / "q.gguf"), "--recipe", "q2"]
    code, out, _ = in_process([*words, "--dry-run"])
    assert (code, list(tmp_path.iterdir())) == (0, [])
    line = next(line for line in out.splitlines() if line.startswith(UP))
    assert line.split() == [
        UP,
        "6",
        "x",
        "256",
        "x",
        "256",
        "F16",
        "->",
        "IQ2_XXS",
        "99.0",
        "KiB",
        "by",
        "column",
        "energy",
    ]
    code, text, _ = in_process([*words, "--dry-run", "--json"])
    document = json.loads(text)
    assert (document["is_written"], len(document["tensors"])) == (False, len(open_gguf(wide).tensors))
    assert in_process(words)[0] == 0
    assert (tmp_path / "q.gguf").stat().st_size == document["size_bytes"]
    code, text, _ = in_process([*QUANTIZE, str(wide), "--recipe", "q4", "--dry-run", "--json"])
    assert (code, json.loads(text)["path"]) == (0, "model.gguf")


def test_comparing_with_a_file(in_process: InProcess, wide: Path, tmp_path: Path) -> None:
    target = tmp_path / "q.gguf"
    assert in_process([*QUANTIZE, str(wide), str(target), "--recipe", "q2"])[0] == 0
    words = [*QUANTIZE, str(wide), "--compare-gguf", str(target), "--compare-tensor", UP, "--recipe"]
    code, out, _ = in_process([*words, "q2"])
    assert (code, out.splitlines()[0]) == (0, f"{UP}: equal, 1536 blocks of IQ2_XXS")
    code, out, _ = in_process([*words, "q4", "--json"])
    document = json.loads(out)
    assert (code, document["is_equal"], document["their_type"]) == (1, False, "IQ2_XXS")
    assert document["error"] < document["their_error"]
    assert [path.name for path in tmp_path.iterdir()] == ["q.gguf"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{wide}"], "expected the file to write after the source"),
        (["{wide}", "{new}", "--recipe", "q2-q4"], "--recipe q2-q4 and --q4-layers belong together"),
        (["{wide}", "{new}", "--recipe", "q2", "--q4-layers", "1"], "--recipe q2-q4 and --q4-layers belong together"),
        (["{wide}", "{new}", "--recipe", "q2-q4", "--q4-layers", "x"], "--q4-layers: got 'x'"),
        (["{wide}", "{new}", "--shared", "q3_k"], "--shared: got 'q3_k'; expected one of"),
        (["{wide}", "{new}", "--tensor-type", "blk"], "expected PREFIX=TYPE"),
        (["{wide}", "{new}", "--compare-tensor", "x"], "--compare-gguf and --compare-tensor belong together"),
        (["{wide}", "{new}", "--imatrix-strict"], "--imatrix-strict needs an --imatrix"),
        (["{wide}", "{new}", "--threads", "1000000"], "--threads"),
        (["{wide}", "{folder}/m-00001-of-00003.gguf"], "one shard of 3"),
        (["{wide}", "{new}", "--no-mtp"], "--no-mtp is for checkpoint folders"),
        (["{wide}", "{wide}", "--recipe", "q2"], "exists already"),
        (["{wide}", "{wide}", "--recipe", "q2", "--overwrite"], "is a file being read"),
        (["{folder}/no.gguf", "{new}"], "no such file"),
        (["{wide}", "{folder}/no/x.gguf"], "no such folder"),
        (["{wide}", "{new}", "--imatrix", "{folder}/no.dat"], "no such file"),
        (["{wide}", "{new}", "--template", "{folder}/no.gguf"], "no such file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_work(
    in_process: InProcess, wide: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    given = [word.format(wide=wide, new=tmp_path / "new.gguf", folder=tmp_path) for word in words]
    before = wide.read_bytes()
    code, _, err = in_process([*QUANTIZE, *given])
    assert code == 2, err
    assert message in err
    assert list(tmp_path.iterdir()) == []
    assert wide.read_bytes() == before


def test_another_try_with_other_options_keeps_what_is_there_until_told_otherwise(
    in_process: InProcess,
    wide: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from whitedwarf.cli import gguf_quantize

    made = gguf_quantize.make_encoder

    class Stopping:
        left = 30

        def encode(self, *arguments: object) -> object:
            Stopping.left -= 1
            if Stopping.left < 0:
                raise KeyboardInterrupt
            return made(1).encode(*arguments)  # type: ignore[arg-type]

    words = [*QUANTIZE, str(wide), str(tmp_path / "q.gguf"), "--recipe"]
    monkeypatch.setattr(gguf_quantize, "make_encoder", lambda threads: Stopping())
    with pytest.raises(SystemExit) as ended:
        in_process([*words, "q2"])
    assert ended.value.code == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [".q.gguf.journal", ".q.gguf.part"]
    monkeypatch.undo()
    code, _, err = in_process([*words, "q4"])
    assert (code, "of another run, with other options or from another source" in err) == (2, True)
    code, _, err = in_process([*words, "q4", "--overwrite"])
    assert (code, "begun with other options or from another source; starting anew" in err) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["q.gguf"]
    assert in_process(["gguf", "verify", str(tmp_path / "q.gguf")])[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_goes_on(number: int, wide: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """The signal comes while a slow encoder is at work; afterwards the file is that of an undisturbed run."""
    slow = (
        "import sys, time; from whitedwarf.cli import gguf_quantize as q; from whitedwarf.gguf import part_model; "
        "part_model.JOURNAL_STEP_BYTES = 1; made = q.make_encoder(1)\n"
        "class Slow:\n"
        "    def encode(self, *a): time.sleep(0.05); return made.encode(*a)\n"
        "q.make_encoder = lambda threads: Slow()\n"
        "from whitedwarf.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [*QUANTIZE, str(wide), str(tmp_path / "q.gguf"), "--recipe", "q2"]
    process = subprocess.Popen([sys.executable, "-c", slow, *words], env=environment, stderr=subprocess.PIPE)
    journal, deadline = tmp_path / ".q.gguf.journal", time.monotonic() + 60
    while not (journal.exists() and json.loads(journal.read_text())["done_tensors"] > 5):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], err
    assert not (tmp_path / "q.gguf").exists()
    again = subprocess.run(
        [sys.executable, "-m", "whitedwarf", *words], env=environment, capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert "going on at" in again.stderr
    words[3] = str(tmp_path / "whole.gguf")
    subprocess.run([sys.executable, "-m", "whitedwarf", *words], env=environment, check=True, capture_output=True)
    assert (tmp_path / "q.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
