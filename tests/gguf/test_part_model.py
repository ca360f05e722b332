"""A file on its way: what survives what, and what is never taken for more than it is."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, tensor_bytes
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.gguf import part_model
from whitedwarf.gguf.layout import Layout, plan_layouts
from whitedwarf.gguf.part_model import PartModel, digest_of
from whitedwarf.gguf.reader import open_gguf


@dataclass(frozen=True)
class Piece:
    """Some bytes of a tensor."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)


def layout_in(folder: Path) -> Layout:
    return plan_layouts(folder / "m.gguf", SMALL_METADATA, SMALL_PLAN)[0]


def pieces() -> list[Piece]:
    """Two of each tensor."""
    every = []
    for seed, tensor in enumerate(SMALL_PLAN):
        data = tensor_bytes(tensor, seed).tobytes()
        half = len(data) // 2
        every += [Piece(part) for part in (data[:half], data[half:]) if part]
    return every


def write(part: PartModel, count: int | None = None) -> list[Piece]:
    written = list(part.missing(pieces()))[:count]
    for piece in written:
        part.write(memoryview(piece.data))
    return written


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    folder = tmp_path / "whole"
    folder.mkdir()
    with PartModel(layout_in(folder), "d") as part:
        assert write(part) == pieces()
        part.publish()
    assert [path.name for path in folder.iterdir()] == ["m.gguf"]
    with open_gguf(folder / "m.gguf") as model:
        for seed, tensor in enumerate(SMALL_PLAN):
            assert model.data(tensor.name).tobytes() == tensor_bytes(tensor, seed).tobytes()
    return (folder / "m.gguf").read_bytes()


def work(layout: Layout, count: int | None, ending: Callable[[PartModel], None], digest: str = "d") -> None:
    """Some pieces, and then what ends it."""
    with PartModel(layout, digest, replace=True) as part:
        write(part, count)
        ending(part)


def stop(part: PartModel) -> None:
    raise KeyboardInterrupt


def interrupted(layout: Layout, count: int, digest: str = "d") -> None:
    with pytest.raises(KeyboardInterrupt):
        work(layout, count, stop, digest)


def test_a_part_goes_on_after_every_piece(whole: bytes, tmp_path: Path) -> None:
    for count in range(len(pieces()) + 1):
        folder = tmp_path / str(count)
        folder.mkdir()
        layout = layout_in(folder)
        interrupted(layout, count)
        assert not layout.path.exists()
        with PartModel(layout, "d") as part:
            assert bool(part.begun_bytes) == (not part.was_other_work)
            assert write(part) == pieces()[count:]
            part.publish()
        assert layout.path.read_bytes() == whole
        assert [path.name for path in folder.iterdir()] == ["m.gguf"]


def test_bytes_that_the_journal_does_not_count_are_written_again(whole: bytes, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    interrupted(layout, 2)
    with (tmp_path / ".m.gguf.part").open("ab") as file:
        file.write(b"half a piece that a power cut left")
    with PartModel(layout, "d") as part:
        write(part)
        part.publish()
    assert layout.path.read_bytes() == whole


def test_a_stop_in_the_middle_of_a_piece_keeps_whole_pieces_only(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path)

    def cut(descriptor: int, data: memoryview) -> int:
        if len(data) > 4:
            return os_write(descriptor, data[:4])
        raise KeyboardInterrupt

    def write_half(part: PartModel) -> None:
        monkeypatch.setattr(part_model.os, "write", cut)
        part.write(memoryview(pieces()[3].data))

    os_write = os.write
    with pytest.raises(KeyboardInterrupt):
        work(layout, 3, write_half)
    monkeypatch.undo()
    with PartModel(layout, "d") as part:
        assert write(part) == pieces()[3:]
        part.publish()
    assert layout.path.read_bytes() == whole


def test_other_work_is_kept_unless_it_may_be_replaced(whole: bytes, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    interrupted(layout, 3, "other options")
    before = {path.name: path.read_bytes() for path in tmp_path.glob(".m.gguf.*")}
    with pytest.raises(UsageError, match="of another run, with other options"):
        PartModel(layout, "d")
    assert {path.name: path.read_bytes() for path in tmp_path.glob(".m.gguf.*")} == before
    with PartModel(layout, "d", replace=True) as part:
        assert (part.was_other_work, part.begun_bytes) == (True, 0)
        assert write(part) == pieces()
        part.publish()
    assert layout.path.read_bytes() == whole


@pytest.mark.parametrize(
    "spoil",
    [
        lambda journal, part: journal.write_text("not json"),
        lambda journal, part: journal.write_text("[]"),
        lambda journal, part: journal.write_text(json.dumps({"digest": "d", "done_bytes": 10**9})),
        lambda journal, part: journal.write_text(json.dumps({"digest": "d", "done_bytes": "1"})),
        lambda journal, part: journal.unlink(),
        lambda journal, part: part.unlink(),
        lambda journal, part: part.write_bytes(b""),
    ],
)
def test_a_journal_that_cannot_be_true_is_not_believed(
    spoil: Callable[[Path, Path], object], whole: bytes, tmp_path: Path
) -> None:
    layout = layout_in(tmp_path)
    interrupted(layout, 3)
    spoil(tmp_path / ".m.gguf.journal", tmp_path / ".m.gguf.part")
    with PartModel(layout, "d") as part:
        assert part.begun_bytes == 0
        write(part)
        part.publish()
    assert layout.path.read_bytes() == whole


def test_one_process_has_it(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    with PartModel(layout, "d") as part:
        with pytest.raises(WhitedwarfError, match="another process is writing it"):
            PartModel(layout, "d")
        write(part)
        part.publish()
        with pytest.raises(UsageError, match="exists already"):
            PartModel(layout, "d")


def test_an_existing_file_stays_until_it_is_replaced(whole: bytes, tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    layout.path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="replace it with --overwrite"):
        PartModel(layout, "d")
    interrupted(layout, 2)
    assert layout.path.read_bytes() == b"mine"
    with PartModel(layout, "d", replace=True) as part:
        write(part)
        part.publish()
    assert layout.path.read_bytes() == whole


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)

    def publish_beside_another() -> None:
        with PartModel(layout, "d") as part:
            write(part)
            layout.path.write_bytes(b"theirs")
            part.publish()

    with pytest.raises(UsageError, match="exists already"):
        publish_beside_another()
    assert layout.path.read_bytes() == b"theirs"
    assert (tmp_path / ".m.gguf.part").exists()


def test_a_full_disk_is_told_and_what_is_done_stays(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path)
    left = [3]

    def full(descriptor: int, data: memoryview) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os_write(descriptor, data)

    def fill(part: PartModel) -> None:
        monkeypatch.setattr(part_model.os, "write", full)
        write(part)

    os_write = os.write
    with pytest.raises(WhitedwarfError, match=r"the disk is full.*run the same command"):
        work(layout, 0, fill)
    monkeypatch.undo()
    with PartModel(layout, "d") as part:
        assert part.begun_bytes > 0
        write(part)
        part.publish()
    assert layout.path.read_bytes() == whole


def test_too_small_a_disk_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(part_model.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(WhitedwarfError, match="bytes are needed and 100 are free"):
        PartModel(layout_in(tmp_path), "d")


def test_discarding_leaves_nothing(tmp_path: Path) -> None:
    def give_up(part: PartModel) -> None:
        part.keep()
        part.discard()
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        work(layout_in(tmp_path), 2, give_up)
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_part_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bytes"):
        work(layout_in(tmp_path), 2, PartModel.publish)


@pytest.mark.parametrize("target", ["missing/m.gguf", "folder"])
def test_impossible_targets_are_refused(target: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"no such folder|not a regular file"):
        PartModel(plan_layouts(tmp_path / target, SMALL_METADATA, SMALL_PLAN)[0], "d", replace=True)


def test_the_digest_tells_sources_and_options_apart(tmp_path: Path) -> None:
    layout, source = layout_in(tmp_path), tmp_path / "source"
    source.write_bytes(b"one")
    first = digest_of(layout, [source], "none")
    assert first == digest_of(layout, [source], "none")
    assert first != digest_of(layout, [source], "imatrix")
    os.utime(source, ns=(1, 1))
    assert first != digest_of(layout, [source], "none")


def test_nothing_is_written_through_a_link_or_into_a_device(tmp_path: Path) -> None:
    layout, part, others = layout_in(tmp_path), tmp_path / ".m.gguf.part", tmp_path / "others"
    others.write_bytes(b"precious")
    makers = (lambda: part.symlink_to(others), lambda: part.hardlink_to(others), lambda: os.mkfifo(part))
    for make in makers:
        make()
        with pytest.raises(WhitedwarfError, match=r"symbolic link|no file of its own"):
            PartModel(layout, "d")
        part.unlink()
    (tmp_path / ".m.gguf.journal.new").symlink_to(others)
    interrupted(layout, 2)
    assert others.read_bytes() == b"precious"


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[" * 100, b"\xff", b"null", None])
def test_a_journal_that_is_none_is_no_journal(whole: bytes, tmp_path: Path, content: bytes | None) -> None:
    layout, journal = layout_in(tmp_path), tmp_path / ".m.gguf.journal"
    if content is None:
        os.mkfifo(journal)
    else:
        journal.write_bytes(content)
    with PartModel(layout, "d") as part:
        assert write(part) == pieces()
        part.publish()
    assert layout.path.read_bytes() == whole


def test_a_full_disk_leaves_no_empty_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 0

    monkeypatch.setattr(part_model.shutil, "disk_usage", lambda path: Usage())
    with pytest.raises(WhitedwarfError, match="the disk is full"):
        PartModel(layout_in(tmp_path), "d")
    assert not list(tmp_path.iterdir())


def test_a_whole_model_gets_no_shards_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one shard of 3"):
        part_model.check_target(tmp_path / "m-00001-of-00003.gguf", replace=True)
