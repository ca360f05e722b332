"""`whitedwarf models`, as a user sees it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DS4_GGUF_DIR", raising=False)
    return tmp_path


def test_without_anything_the_bundled_model_is_the_default(in_process: InProcess) -> None:
    code, out, err = in_process(["models"])
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 2)
    assert lines[0].split() == ["NAME", "SIZE", "SHAPE", "TYPES", "WHERE"]
    assert lines[1].startswith("*  nano.gguf")


def test_the_folder_of_pull_and_the_link_are_looked_into(in_process: InProcess, babbler: Path) -> None:
    Path("gguf").mkdir()
    Path("gguf/mine.gguf").write_bytes(babbler.read_bytes())
    Path("gguf/bad\x1b[2J.gguf").write_bytes(b"GGUF")
    Path("ds4flash.gguf").symlink_to("gguf/mine.gguf")
    code, out, _ = in_process(["models"])
    assert code == 0
    assert [line[:1] for line in out.splitlines()[1:4]] == [" ", "*", " "]
    assert "*  mine.gguf" in out
    assert "2 layers" in out
    assert "Q8_0" in out
    assert "bad\\x1b[2J.gguf: " in out.splitlines()[-1]
    assert "\x1b" not in out


def test_more_folders_may_be_given(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(["models", str(babbler.parent)])
    assert (code, "babbler.gguf" in out) == (0, True)
    code, _, err = in_process(["models", "nowhere"])
    assert (code, err) == (2, "whitedwarf: nowhere is no folder; expected one with models\n")


def test_models_as_json(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(["models", str(babbler.parent), "--json"])
    document = json.loads(out)
    assert code == 0
    assert document["default"].endswith("nano.gguf")
    mine = document["models"][0]
    assert (mine["name"], mine["is_default"], mine["num_files"]) == ("babbler.gguf", False, 1)
    assert (mine["path"], mine["size_bytes"]) == (str(babbler), babbler.stat().st_size)
    assert [model["is_default"] for model in document["models"]] == [False, True]


def test_a_default_that_is_not_there_is_told(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHITEDWARF_MODEL", "/nowhere.gguf")
    code, out, err = in_process(["models"])
    assert (code, "there is no such file" in err) == (0, True)
    assert out.splitlines()[1].startswith("   nano.gguf")
