"""Where the home is, and what there is without one."""

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from whitedwarf.agent.home import home
from whitedwarf.agent.tui.theme_file import ThemeFile
from whitedwarf.cli.history import LineHistory


def test_the_home_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path


def test_a_user_without_one_keeps_nothing_and_meets_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    history, theme = LineHistory(home() / ".history"), ThemeFile(home() / ".w" / "theme")
    history.store_string("hello")
    theme.store("dark")
    assert list(history.load_history_strings()) == []
    assert theme.load() == ""
