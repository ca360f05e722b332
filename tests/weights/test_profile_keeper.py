"""The profile of experts in the user's cache folder: private, written at the end, and never in anybody's way."""

import gc
import stat
import time
from pathlib import Path

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.expert_cache import ExpertCache
from whitedwarf.weights.profile_keeper import ProfileKeeper, model_fingerprint, profile_path
from whitedwarf.weights.store import bundled_model


def fresh() -> ExpertCache:
    return ExpertCache(4, [10, 10], {10: 3})


def picks_of(path: Path) -> list[list[int]]:
    cache = fresh()
    assert ProfileKeeper(path, "m").begin(cache) is None
    return cache.picks.tolist()  # type: ignore[no-any-return]


def test_it_lies_in_the_cache_folder_under_the_models_name(tmp_path: Path) -> None:
    assert profile_path("abc", {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "whitedwarf/experts/abc.json"
    assert profile_path("abc", {"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/whitedwarf/experts/abc.json"


def test_it_is_written_at_the_end_for_its_owner_alone(tmp_path: Path) -> None:
    keeper, cache = ProfileKeeper(tmp_path / "new/experts/m.json", "m"), fresh()
    assert keeper.begin(cache) is None
    cache.pick(1, [2])
    keeper.close()
    assert picks_of(keeper.path) == [[0, 0, 0, 0], [0, 0, 1, 0]]
    assert stat.S_IMODE(keeper.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keeper.path.parent.stat().st_mode) & 0o077 == 0
    assert [path.name for path in keeper.path.parent.iterdir()] == ["m.json"]


def test_it_is_written_when_the_cache_goes(tmp_path: Path) -> None:
    keeper, cache = ProfileKeeper(tmp_path / "m.json", "m"), fresh()
    keeper.begin(cache)
    cache.pick(0, [3])
    del cache
    gc.collect()
    assert picks_of(tmp_path / "m.json") == [[0, 0, 0, 1], [0, 0, 0, 0]]


def test_it_is_written_now_and_then(tmp_path: Path) -> None:
    keeper, cache = ProfileKeeper(tmp_path / "m.json", "m"), fresh()
    keeper.begin(cache, every_s=0.01)
    cache.pick(0, [3])
    end_s = time.monotonic() + 30
    while not keeper.path.exists() and time.monotonic() < end_s:
        time.sleep(0.01)
    keeper.close()
    assert picks_of(keeper.path)[0] == [0, 0, 0, 1]


def test_nothing_is_written_where_nothing_was_picked(tmp_path: Path) -> None:
    keeper = ProfileKeeper(tmp_path / "m.json", "m")
    keeper.begin(fresh())
    keeper.close()
    assert not keeper.path.exists()


def test_a_file_that_is_none_is_told_of_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text("not JSON")
    keeper, cache = ProfileKeeper(path, "m"), fresh()
    assert "no profile of this model's experts" in (keeper.begin(cache) or "")
    cache.pick(0, [1])
    keeper.close()
    assert path.read_text() == "not JSON"


def test_a_folder_that_cannot_be_written_costs_the_profile_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keeper, cache = ProfileKeeper(tmp_path / "file" / "m.json", "m"), fresh()
    told = keeper.begin(cache)
    cache.pick(0, [1])
    keeper.close()
    assert told is not None


def test_a_model_is_known_wherever_its_file_lies_and_by_its_routers(tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    data = bytearray(bundled_model().read_bytes())
    copy.write_bytes(data)
    with open_gguf(bundled_model()) as gguf, open_gguf(copy) as copied:
        mark = model_fingerprint(gguf)
        assert model_fingerprint(copied) == mark
        info = next(info for name, info in gguf.tensors.items() if name.endswith("ffn_gate_inp.weight"))
    data[info.offset_bytes] ^= 1
    copy.write_bytes(data)
    with open_gguf(copy) as changed:
        assert model_fingerprint(changed) != mark


def test_counting_goes_on_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for _ in range(3):
        keeper, cache = ProfileKeeper(path, "m"), fresh()
        keeper.begin(cache)
        cache.pick(0, [1, 2])
        keeper.close()
    assert picks_of(path)[0] == [0, 3, 3, 0]
