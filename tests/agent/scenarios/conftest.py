import tempfile
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest

from agent.scenarios.play import Play
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer

NOW = datetime(2026, 11, 30, 22, 19, tzinfo=UTC)


class Clock(datetime):
    """Stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return NOW


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are as full on every day and every machine: a weekday's name may be more tokens than another's, and
    where there is a browser the model is told of two more tools."""
    monkeypatch.setattr("whitedwarf.agent.rounds.datetime", Clock)
    monkeypatch.setattr("whitedwarf.agent.tools.standard.find_browser", lambda: Path("/nowhere/chromium"))


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
