"""What was hot is known at the next start."""

from pathlib import Path

import numpy as np
import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.weights.expert_cache import ExpertCache
from whitedwarf.weights.expert_profile import load_profile, save_profile


def fresh(num_experts: int = 4) -> ExpertCache:
    return ExpertCache(num_experts, [10, 10], {10: 3})


def used() -> ExpertCache:
    cache = fresh()
    for layer, expert in ((0, 2), (0, 2), (1, 3), (0, 2), (1, 3), (1, 0)):
        cache.pick(layer, [expert])
    return cache


def test_the_hottest_come_back_first(tmp_path: Path) -> None:
    save_profile(tmp_path / "profile.json", "nano", used())
    cache = fresh()
    load_profile(tmp_path / "profile.json", "nano", cache)
    assert [(layer, load.expert) for layer, load in cache.preload()] == [(0, 2), (1, 3), (1, 0)]


def test_counting_goes_on(tmp_path: Path) -> None:
    cache, path = used(), tmp_path / "profile.json"
    save_profile(path, "nano", cache)
    again = fresh()
    load_profile(path, "nano", again)
    again.pick(0, [2])
    save_profile(path, "nano", again)
    last = fresh()
    load_profile(path, "nano", last)
    assert last.picks[0, 2] == 4
    assert [file.name for file in tmp_path.iterdir()] == ["profile.json"]


def test_an_old_profile_is_soon_outdone(tmp_path: Path) -> None:
    cache = used()
    cache.picks *= 1_000_000
    save_profile(tmp_path / "profile.json", "nano", cache)
    warm = fresh()
    load_profile(tmp_path / "profile.json", "nano", warm)
    assert warm.heat.max() == pytest.approx(8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "other", "picks": [[0,0,0,0],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 2, "model": "nano", "picks": [[0,0,0,0],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": [[0,0,0],[0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": [[0,0,0,-1],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": [[0,0,0,0.5],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": [[0,0,0],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": [[0,0,0,1e99],[0,0,0,0]]}',
        '{"format": "whitedwarf-expert-profile", "version": 1, "model": "nano", "picks": "many"}',
    ],
)
def test_what_is_no_profile_of_the_model_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    cache = fresh()
    with pytest.raises(FileFormatError, match=r"is no profile of this model's experts: .*; remove it"):
        load_profile(path, "nano", cache)
    assert not np.any(cache.heat)


def test_without_a_file_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_profile(tmp_path / "none.json", "nano", fresh())
