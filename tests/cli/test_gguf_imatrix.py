"""`gguf imatrix` on the bundled model: both formats, resumed in the same bits, and what goes wrong."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli import gguf_imatrix
from whitedwarf.cli.termination import TERMINATED, held_signals
from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.imatrix import read_imatrix
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.weights.store import bundled_model, load_tensors

Call = Callable[..., tuple[int, str, str]]

QUESTIONS = ["What is the capital of Norway?", "Who are you?", "Define a tree.", "What is 12 plus 28?", "hello there"]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    rendered = [f"<｜begin▁of▁sentence｜><｜User｜>{text}<｜Assistant｜></think>" for text in QUESTIONS]
    path.write_text("".join(f"===== WHITEDWARF_PROMPT {n} =====\n{text}\n\n" for n, text in enumerate(rendered)))
    return path


@pytest.fixture
def imatrix(in_process: Call, dataset: Path) -> Call:
    def call(*words: object) -> tuple[int, str, str]:
        return in_process(["gguf", "imatrix", str(dataset), *map(str, words)])

    return call


def test_the_dat_has_the_originals_entries_and_fits_the_model(imatrix: Call, tmp_path: Path) -> None:
    code, out, _ = imatrix("-o", tmp_path / "i.dat")
    assert code == 0
    assert "5 prompts" in out
    found = read_imatrix(tmp_path / "i.dat")
    parts = ("gate", "up", "down")
    assert list(found.names) == [f"blk.{layer}.ffn_{part}_exps.weight" for layer in range(6) for part in parts]
    assert (found.dataset, found.chunks) == ("prompts.txt", 5)
    with open_gguf(bundled_model()) as gguf:
        for name, tensor in load_tensors(gguf).items():
            if name.endswith("_exps.weight"):
                for expert in range(tensor.shape[0]):
                    weights = found.weights(name, tensor.shape[2], expert, tensor.shape[0])
                    assert weights is not None
                    assert (weights > 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i.dat", "prompts.txt"]


def test_the_gguf_covers_every_matrix_of_the_blocks(imatrix: Call, tmp_path: Path) -> None:
    code, out, _ = imatrix("-o", tmp_path / "i.gguf", "--json")
    assert code == 0
    found = read_imatrix(tmp_path / "i.gguf")
    skipped = ("ffn_gate_inp.weight", "_ape.weight", "ffn_gate_tid2eid.weight")
    with open_gguf(bundled_model()) as gguf:
        matrices = {
            name: tensor
            for name, tensor in load_tensors(gguf).items()
            if name.startswith("blk.") and len(tensor.shape) > 1 and ".hc_" not in name and not name.endswith(skipped)
        }
    assert set(found.names) == set(matrices)
    for name, tensor in matrices.items():
        experts = tensor.shape[0] if len(tensor.shape) == 3 else 1
        assert found.weights(name, tensor.shape[-1], 0 if experts > 1 else None, experts) is not None, name
    report = json.loads(out)
    assert report["entries"] == len(matrices)
    assert report["prompts"] == 5
    assert report["experts"] == 48
    assert sum(len(layer["never"]) for layer in report["layers"]) == report["experts_never_seen"]


def interrupting(monkeypatch: pytest.MonkeyPatch, prompt: int, raise_it: Callable[[], None]) -> None:
    """The prompt of that number is interrupted when half of it has been read."""
    run_prompt, seen = gguf_imatrix.run_prompt, []

    def run(model, collector, ids, chunk_tokens, heard=None):  # type: ignore[no-untyped-def]
        seen.append(ids)
        if len(seen) == prompt:
            run_prompt(model, collector, ids[: len(ids) // 2], chunk_tokens)
            raise_it()
        run_prompt(model, collector, ids, chunk_tokens, heard)

    monkeypatch.setattr(gguf_imatrix, "run_prompt", run)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, TERMINATED)])
@pytest.mark.parametrize("suffix", ["dat", "gguf"])
def test_interrupted_and_resumed_it_ends_in_the_same_bytes(
    imatrix: Call, tmp_path: Path, number: int, code: int, suffix: str
) -> None:
    whole, resumed = tmp_path / f"whole.{suffix}", tmp_path / f"resumed.{suffix}"
    assert imatrix("-o", whole)[0] == 0
    with pytest.MonkeyPatch.context() as patch:
        interrupting(patch, 3, lambda: os.kill(os.getpid(), number))
        with pytest.raises(SystemExit) as caught:
            imatrix("-o", resumed)
        assert caught.value.code == code
    assert not resumed.exists()
    assert resumed.with_name(resumed.name + ".sums").exists()
    code, out, told = imatrix("-o", resumed, "--json")
    assert code == 0
    assert "going on behind 2 prompts" in told
    assert json.loads(out)["resumed_prompts"] == 2
    assert resumed.read_bytes() == whole.read_bytes()
    assert not resumed.with_name(resumed.name + ".sums").exists()


def test_killed_it_goes_on_behind_what_was_saved(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    interrupting(monkeypatch, 4, kill)
    with pytest.raises(Killed):
        imatrix("-o", tmp_path / "i.dat", "--save-every", 2)
    monkeypatch.undo()
    code, _, told = imatrix("-o", tmp_path / "i.dat")
    assert code == 0
    assert "behind 2 prompts" in told


def test_sums_of_other_settings_are_not_mixed_in(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    interrupting(monkeypatch, 2, interrupt)
    with pytest.raises(SystemExit):
        imatrix("-o", tmp_path / "i.dat")
    monkeypatch.undo()
    code, _, told = imatrix("-o", tmp_path / "i.dat", "--quality")
    assert code == 2
    assert "quality" in told


def test_prompts_and_tokens_can_be_limited(imatrix: Call, tmp_path: Path) -> None:
    assert json.loads(imatrix("-o", tmp_path / "a.dat", "--max-prompts", 2, "--json")[1])["prompts"] == 2
    report = json.loads(imatrix("-o", tmp_path / "b.dat", "--max-tokens", 17, "--json")[1])
    assert (report["tokens"], report["prompts"]) == (17, 2)
    report = json.loads(imatrix("-o", tmp_path / "c.dat", "--ctx", 3, "--json")[1])
    assert (report["tokens"], report["prompts"]) == (15, 5)


def test_any_chunk_gives_the_same_file(imatrix: Call, tmp_path: Path) -> None:
    for size in (1, 4, 512):
        assert imatrix("-o", tmp_path / f"{size}.gguf", "--prefill-chunk", size)[0] == 0
    one, four, many = ((tmp_path / f"{size}.gguf").read_bytes() for size in (1, 4, 512))
    assert one == four == many


def test_an_output_in_the_way_is_replaced_only_when_asked(imatrix: Call, tmp_path: Path) -> None:
    (tmp_path / "i.dat").write_bytes(b"hours of work")
    code, _, told = imatrix("-o", tmp_path / "i.dat")
    assert (code, (tmp_path / "i.dat").read_bytes()) == (2, b"hours of work")
    assert "--overwrite" in told
    assert imatrix("-o", tmp_path / "i.dat", "--overwrite")[0] == 0
    assert read_imatrix(tmp_path / "i.dat").chunks == 5


def test_what_appears_meanwhile_is_not_replaced_and_nothing_is_lost(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "i.dat"
    made = gguf_imatrix.make_imatrix

    def late(*words):  # type: ignore[no-untyped-def]
        out.write_bytes(b"another run's work")
        return made(*words)

    monkeypatch.setattr(gguf_imatrix, "make_imatrix", late)
    assert imatrix("-o", out)[0] == 2
    assert out.read_bytes() == b"another run's work"
    monkeypatch.undo()
    out.unlink()
    assert json.loads(imatrix("-o", out, "--json")[1])["resumed_prompts"] == 5


def test_a_disk_that_is_full_at_the_end_costs_nothing(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object) -> None:
        raise WhitedwarfError("no space")

    out, whole = tmp_path / "i.dat", tmp_path / "w.dat"
    assert imatrix("-o", whole)[0] == 0
    monkeypatch.setattr(gguf_imatrix, "write_imatrix", full)
    assert imatrix("-o", out)[0] == 1
    monkeypatch.undo()
    assert json.loads(imatrix("-o", out, "--json")[1])["resumed_prompts"] == 5
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("limit", [["--max-prompts", 1], ["--max-tokens", 3]])
def test_sums_of_more_than_is_asked_for_are_not_taken(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: list[object]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    interrupting(monkeypatch, 4, interrupt)
    with pytest.raises(SystemExit):
        imatrix("-o", tmp_path / "i.dat")
    monkeypatch.undo()
    code, _, told = imatrix("-o", tmp_path / "i.dat", *limit)
    assert (code, "--max-prompts and --max-tokens" in told) == (2, True)
    assert imatrix("-o", tmp_path / "i.dat")[0] == 0


def test_the_output_cannot_be_what_is_read(in_process: Call, dataset: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(bundled_model().read_bytes())
    for target in (dataset, model, tmp_path, tmp_path / "none" / "i.dat"):
        code, _, _ = in_process(["gguf", "imatrix", str(dataset), "-m", str(model), "-o", str(target), "--overwrite"])
        assert code == 2
    assert model.read_bytes() == bundled_model().read_bytes()


@pytest.mark.parametrize("text", ["", "stray\n===== WHITEDWARF_PROMPT 1\nhello"])
def test_a_file_without_prompts_is_told_before_the_model_is_opened(in_process: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "d.txt").write_text(text)
    words = ["gguf", "imatrix", str(tmp_path / "d.txt"), "-o", str(tmp_path / "i.dat"), "-m", "/none.gguf"]
    code, _, told = in_process(words)
    assert code == 1
    assert "d.txt" in told


def test_a_model_whose_rows_are_not_finite_is_told(
    imatrix: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whitedwarf.ops.moments import Moments

    add = Moments.add
    monkeypatch.setattr(Moments, "add", lambda self, name, matrix, rows: add(self, name, matrix, rows * np.inf))
    code, _, told = imatrix("-o", tmp_path / "i.dat")
    assert code == 1
    assert "not finite" in told
    assert not (tmp_path / "i.dat").exists()


def test_a_held_signal_comes_at_the_end() -> None:
    steps = []

    def work() -> None:
        with held_signals():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("done")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_calibrated_and_quantised_the_columns_that_matter_are_nearer(in_process: Call, tmp_path: Path) -> None:
    """calibrate, imatrix, quantize: weighed by the importances, experts are nearer to the model than without."""
    model, text, matrix = tmp_path / "m.gguf", tmp_path / "c.txt", tmp_path / "i.dat"
    synthesise(model, "tiny", layers=2, quant="f16")
    assert in_process(["gguf", "calibrate", "-o", str(text), "--records", "12"])[0] == 0
    collect = ["gguf", "imatrix", str(text), "-o", str(matrix), "-m", str(model), "--max-tokens", "3000"]
    assert in_process(collect)[0] == 0
    types = ["--routed-w1", "iq2_xxs", "--routed-w3", "iq2_xxs", "--routed-w2", "q2_k"]
    errors = {}
    for name, more in {"without": [], "with": ["--imatrix", str(matrix), "--imatrix-strict"]}.items():
        made = tmp_path / f"{name}.gguf"
        assert in_process(["gguf", "quantize", str(model), str(made), *types, *more])[0] == 0
        errors[name] = weighed_errors(model, made, matrix)
    for tensor, error in errors["with"].items():
        assert error < errors["without"][tensor], tensor


def weighed_errors(model: Path, made: Path, matrix: Path) -> dict[str, float]:
    """Sum of importance times squared difference, by tensor of experts."""
    importances, found = read_imatrix(matrix), {}
    with open_gguf(model) as right, open_gguf(made) as wrong:
        tensors = load_tensors(wrong)
        for name, tensor in load_tensors(right).items():
            if name.endswith("_exps.weight"):
                experts, _, columns = tensor.shape
                weights = [importances.weights(name, columns, expert, experts) for expert in range(experts)]
                squares = np.square(tensor.floats() - tensors[name].floats(), dtype=np.float64)
                found[name] = float((squares * np.array(weights)[:, None, :]).sum())
    return found
