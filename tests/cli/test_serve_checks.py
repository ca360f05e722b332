"""Options of `serve` that contradict each other or cannot be had are told before a model is looked for."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from whitedwarf.cli.serve_checks import check_script, enter
from whitedwarf.config import ModelSettings, ServeSettings, SteeringSettings
from whitedwarf.errors import UsageError

Call = Callable[[Sequence[str]], tuple[int, str, str]]
NOWHERE = ("-m", "/nowhere.gguf", "--port", "0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to come back to."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--power", "0"], "power"),
        (["--power", "101"], "power"),
        (["-n", "0"], "for -n"),
        (["--recipe", "v5"], "recipe"),
        (["--log-format", "xml"], "log-format"),
        (["--chdir", "/no/such/folder"], "--chdir /no/such/folder: expected a folder"),
        (["--trace", "/no/such/trace"], "--trace /no/such/trace: expected a new file"),
        (["--steering", "/no/such/file"], "--dir-steering-file /no/such/file: expected a readable file"),
        (["--dir-steering-ffn", "2"], "give --dir-steering-file"),
        (["--dir-steering-attn", "101"], "dir-steering-attn"),
        (["--script", "a", "--kv-disk-dir", "b"], "--script and --kv-disk-dir contradict"),
        (["--script", "a", "--power", "50"], "--script and --power contradict"),
        (["--script", "a", "--steering", "b"], "--script and --dir-steering-file contradict"),
    ],
)
def test_what_is_wrong_is_told_at_once_with_2(flags: list[str], told: str, in_process: Call) -> None:
    code, _, said = in_process(["serve", *NOWHERE, *flags])
    assert (code, told in said, "nowhere.gguf" in said) == (2, True, False), said


def test_a_model_is_never_overwritten_by_a_trace(tmp_path: Path, in_process: Call) -> None:
    model = tmp_path / "a.gguf"
    model.write_bytes(b"GGUF and much more")
    code, _, said = in_process(["serve", "-m", str(model), "--port", "0", "--trace", str(model)])
    assert (code, "something else" in said) == (2, True)
    assert model.read_bytes() == b"GGUF and much more"


def test_relative_paths_start_where_the_server_was_told_to_go(folder: Path, in_process: Call) -> None:
    (folder / "there").mkdir()
    code, _, said = in_process(
        ["serve", "--chdir", "there", "--trace", "trace", "--script", "none.jsonl", "--port", "0", "-m", "none.gguf"]
    )
    assert (code, "none.gguf" in said) == (1, True) or code == 2
    assert (folder / "there" / "trace").exists()


def test_a_folder_is_entered_and_what_is_none_is_not(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(UsageError, match="Not a directory"):
        enter(folder / "file")
    enter(None)
    assert Path.cwd() == folder
    (folder / "there").mkdir()
    enter(Path("there"))
    assert Path.cwd() == folder / "there"


def test_a_script_alone_is_fine() -> None:
    check_script(ServeSettings(script=Path("a")), SteeringSettings(), ModelSettings())
    check_script(ServeSettings(kv_disk_dir=Path("a")), SteeringSettings(file=Path("b")), ModelSettings(power=50))
