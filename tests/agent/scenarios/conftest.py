import tempfile
from pathlib import Path

import pytest

from agent.scenarios.play import Play
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a scenario lives: its workspace, and a home, a place for temporary files and a working folder beside it."""
    for name in ("home", "temporary", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it remembers
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


@pytest.fixture(params=[ModelVersion.V4, ModelVersion.V41], ids=["v4", "v41"])
def play(request: pytest.FixtureRequest, tokenizer: Tokenizer, folder: Path) -> Play:
    """In both ways of writing."""
    return Play(tokenizer, request.param, folder)


@pytest.fixture
def play_v4(tokenizer: Tokenizer, folder: Path) -> Play:
    """Where the way of writing makes no difference."""
    return Play(tokenizer, ModelVersion.V4, folder)
