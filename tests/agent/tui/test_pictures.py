"""Scripted sessions look as they did when somebody looked at them (golden/, written by pictures.py)."""

import pytest

from agent.tui.pictures import SIZES, golden_path, picture
from agent.tui.sessions import SESSIONS


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_looks_as_it_did(name: str, size: tuple[int, int]) -> None:
    assert picture(name, size) == golden_path(name, size).read_text(encoding="utf-8")
