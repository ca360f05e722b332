"""Where output may go: a regular file that nothing is being read from, and nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from whitedwarf.cli.output_file import check_output
from whitedwarf.errors import UsageError

InProcess = Callable[[list[str]], tuple[int, str, str]]


def test_a_new_name_and_an_old_file_are_fine(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    check_output(tmp_path / "new", [tmp_path / "old", tmp_path / "missing"])
    check_output(tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("name", ["", ".", "..", "no/such", "pipe", "source", "link", "x" * 300, "x" * 250, "/proc/x"])
def test_what_cannot_become_our_file_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("source").touch()
    Path("link").symlink_to("source")
    with pytest.raises(UsageError, match=r"cannot write .*give the name of a file"):
        check_output(Path(name), [Path("source")])


def test_a_device_stays_a_device(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    pipe, ids = tmp_path / "pipe", tmp_path / "ids.json"
    os.mkfifo(pipe)  # stands for /dev/null, which this once replaced by a plain file
    ids.write_text("[1, 2]")
    for words in (["logits", "--ids-file", str(ids), "--out"], ["bench", "--csv"], ["logprobs", "-p", "hi", "--out"]):
        code, _, err = in_process([*words, str(pipe), "-m", str(babbler)])
        assert (code, "not a regular file" in err) == (2, True)
    assert pipe.is_fifo()


def test_the_model_and_the_ids_are_never_written_over(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    ids = tmp_path / "ids.json"
    ids.write_text("[1, 2]")
    before = babbler.read_bytes()
    for words in (["logits", "--ids-file", str(ids), "--out"], ["bench", "--csv"], ["logprobs", "-p", "hi", "--out"]):
        code, _, err = in_process([*words, str(babbler), "-m", str(babbler)])
        assert (code, "which is being read" in err) == (2, True)
    assert in_process(["logits", "--ids-file", str(ids), "--out", str(ids), "-m", str(babbler)])[0] == 2
    assert (babbler.read_bytes(), ids.read_text()) == (before, "[1, 2]")
