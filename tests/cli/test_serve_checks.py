"""Options of `serve` that contradict each other or cannot be had are told before a model is looked for."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from whitedwarf.cli.serve_checks import check_script, enter, steering_warning
from whitedwarf.config import ServeSettings, SteeringSettings
from whitedwarf.errors import UsageError

Call = Callable[[Sequence[str]], tuple[int, str, str]]
NOWHERE = ("-m", "/nowhere.gguf", "--port", "0")


@pytest.fixture
def directions(tmp_path: Path) -> Path:
    path = tmp_path / "directions.f32"
    path.write_bytes(bytes(4 * 6))
    return path


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
    check_script(ServeSettings(script=Path("a")), SteeringSettings())
    check_script(ServeSettings(kv_disk_dir=Path("a"), power=50), SteeringSettings(file=Path("b")))


@pytest.mark.parametrize(
    ("ffn", "attention", "is_told"),
    [
        (None, None, True),
        (1.0, None, True),
        (None, -3.0, True),
        (0.0, 1.0, True),
        (0.0, None, False),
        (0.0, 0.0, False),
    ],
)
def test_a_direction_that_would_be_used_is_said_not_to_be_yet(
    ffn: float | None, attention: float | None, is_told: bool, directions: Path
) -> None:
    warning = steering_warning(SteeringSettings(file=directions, ffn=ffn, attention=attention))
    assert (warning is not None) is is_told
    assert warning is None or "not applied yet" in warning


def test_what_is_no_file_of_directions_is_refused(directions: Path, tmp_path: Path) -> None:
    with directions.open("ab") as file:
        file.write(b"x")
    for path in (directions, tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match=f"--dir-steering-file {path}: expected"):
            steering_warning(SteeringSettings(file=path))
    os.truncate(directions, 0)
    with pytest.raises(UsageError, match="0 bytes"):
        steering_warning(SteeringSettings(file=directions))


def test_no_direction_is_nothing_to_tell() -> None:
    assert steering_warning(SteeringSettings()) is None
    assert steering_warning(SteeringSettings(ffn=0.0)) is None
