"""Unfinished sums on disk: the same bits again, and never those of something else."""

import errno
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.calibration.collect import Collection, planned
from whitedwarf.calibration.sums_file import read_sums, sums_path, write_sums
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.ops.moments import Moments

ABOUT = {"model": "abc", "context": 512}


def collection() -> Collection:
    moments = Moments()
    moments.declare("blk.0.a.weight", 3, 4)
    moments.add("blk.0.a.weight", 1, np.random.default_rng(0).normal(size=(5, 4)))
    return Collection(moments, 2, 99)


def test_sums_come_back_bit_for_bit(tmp_path: Path) -> None:
    path, before = sums_path(tmp_path / "i.dat"), collection()
    assert read_sums(path, ABOUT).prompts == 0
    write_sums(path, before, ABOUT)
    after = read_sums(path, ABOUT)
    assert (after.prompts, after.tokens, list(tmp_path.iterdir())) == (2, 99, [tmp_path / "i.dat.sums"])
    for name, sums in before.moments.sums.items():
        np.testing.assert_array_equal(after.moments.sums[name], sums)
        np.testing.assert_array_equal(after.moments.counts[name], before.moments.counts[name])


@pytest.mark.parametrize("about", [ABOUT | {"context": 513}, {"model": "abc"}, ABOUT | {"quality": True}])
def test_sums_of_something_else_are_refused(tmp_path: Path, about: dict[str, object]) -> None:
    write_sums(tmp_path / "s", collection(), ABOUT)
    with pytest.raises(UsageError, match="unfinished collection with"):
        read_sums(tmp_path / "s", about)


@given(st.data())
@settings(max_examples=60)
def test_damaged_sums_are_refused_or_whole(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("sums") / "s"
    write_sums(path, collection(), ABOUT)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        found = read_sums(path, ABOUT)
    except (FileFormatError, UsageError):
        return
    assert not list(found.moments.broken())


@pytest.mark.parametrize("spoilt", [np.nan, -1.0])
def test_sums_that_are_none_are_refused(tmp_path: Path, spoilt: float) -> None:
    broken = collection()
    broken.moments.sums["blk.0.a.weight"][0, 0] = spoilt
    write_sums(tmp_path / "s", broken, ABOUT)
    with pytest.raises(FileFormatError, match="Delete it"):
        read_sums(tmp_path / "s", ABOUT)


@pytest.mark.parametrize("prompts", [-1, 1.5, True, "2", None, float("inf"), [2]])
def test_prompts_that_are_no_number_are_refused(tmp_path: Path, prompts: object) -> None:
    broken = collection()
    broken.prompts = prompts  # type: ignore[assignment]
    write_sums(tmp_path / "s", broken, ABOUT)
    with pytest.raises(FileFormatError, match="Delete it"):
        read_sums(tmp_path / "s", ABOUT)


def test_what_is_no_archive_is_told_in_our_words(tmp_path: Path) -> None:
    for content in (b"", b"junk", b"PK"):
        (tmp_path / "s").write_bytes(content)
        with pytest.raises(FileFormatError, match="expected the sums of an unfinished collection") as raised:
            read_sums(tmp_path / "s", ABOUT)
        assert "pickle" not in str(raised.value)


@pytest.mark.parametrize("name", ["a.b.c.d", "blk.x.a.weight", "blk.1", "../x"])
def test_sums_of_what_is_no_weight_are_refused(tmp_path: Path, name: str) -> None:
    broken = collection()
    broken.moments.declare(name, 1, 1)
    write_sums(tmp_path / "s", broken, ABOUT)
    with pytest.raises(FileFormatError, match="Delete it"):
        read_sums(tmp_path / "s", ABOUT)


def test_a_full_disk_leaves_the_earlier_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    write_sums(path, collection(), ABOUT)

    def full(file: io.BufferedWriter, **arrays: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(WhitedwarfError, match="No space left"):
        write_sums(path, Collection(), ABOUT)
    assert list(tmp_path.iterdir()) == [path]
    assert read_sums(path, ABOUT).prompts == 2


@pytest.mark.parametrize(
    ("done", "max_prompts", "max_tokens", "lengths"),
    [
        (0, None, None, [3, 4, 5]),
        (1, None, None, [4, 5]),
        (0, 2, None, [3, 4]),
        (2, 2, None, []),
        (0, None, 5, [3, 2]),
        (0, None, 7, [3, 4]),
        (1, None, 3, []),
        (0, 9, 1, [1]),
    ],
)
def test_what_is_left_to_run(done: int, max_prompts: int | None, max_tokens: int | None, lengths: list[int]) -> None:
    prompts = [[0] * 3, [0] * 4, [0] * 5]
    tokens_done = sum(map(len, prompts[:done]))
    assert [len(ids) for ids in planned(prompts, done, tokens_done, max_prompts, max_tokens)] == lengths
