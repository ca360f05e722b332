"""Drafts by flags: who guesses, what is refused, and that answers stay the same."""

from pathlib import Path

import pytest

from whitedwarf.cli.main import main
from whitedwarf.weights.store import bundled_model

BLOCK = str(bundled_model().with_name("nano-mtp.gguf"))
ASK = ["run", "--nothink", "--temp", "0", "-n", "24", "-p", "Count from one to twenty."]


def told(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[str, str]:
    """The answer, and what was told about it; the command has to succeed."""
    assert main([*ASK, *flags]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize(
    ("flags", "described"),
    [
        (["--draft", "ngram"], "drafts n-grams"),
        (["--draft", "auto"], "drafts n-grams"),
        (["--mtp", BLOCK], "drafts n-grams and MTP"),
        (["--mtp", BLOCK, "--draft", "auto", "--mtp-draft", "3", "--mtp-margin", "0.5"], "drafts n-grams and MTP"),
        (["--draft", "ngram", "--ssd-streaming"], "drafts n-grams"),
        (["--draft", "off"], "drafts off"),
    ],
)
def test_answers_are_those_without(capsys: pytest.CaptureFixture[str], flags: list[str], described: str) -> None:
    plain, without = told(capsys)
    answer, about = told(capsys, *flags)
    assert answer == plain
    assert "drafts off" in without
    assert f"{described}\n" in about


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--mtp", BLOCK, "--draft", "off"], "contradict"),
        (["--mtp", BLOCK, "--draft", "ngram"], "contradict"),
        (["--mtp", BLOCK, "--ssd-streaming"], "do not go together"),
        (["--draft", "mtp", "--ssd-streaming"], "do not go together"),
        (["--draft", "mtp"], "no block for drafts"),
        (["--mtp", str(bundled_model())], "mtp"),
        (["--mtp", "no-such-file.gguf"], "no-such-file.gguf"),
        (["--mtp", BLOCK, "--mtp-draft", "17"], "--mtp-draft"),
        (["--mtp", BLOCK, "--mtp-margin", "-1"], "--mtp-margin"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], flags: list[str], why: str
) -> None:
    assert main([*ASK, *flags]) != 0
    captured = capsys.readouterr()
    assert not captured.out
    assert why in captured.err


def test_a_block_of_another_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    assert main(["gguf", "synth", str(other), "--shape", "tiny", "--quant", "q8"]) == 0
    capsys.readouterr()
    assert main([*ASK, "-m", str(other), "--mtp", BLOCK]) != 0
    assert "mtp" in capsys.readouterr().err
