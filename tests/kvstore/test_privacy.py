"""Nobody else reads what is saved, nobody else's files are used, and no name in the folder leads out of it."""

import os
import stat
from pathlib import Path

import pytest

from fakes.kv_files import FakeFile
from fakes.packed_files import PackedFile
from kvstore.folder import PACKED_LAYOUT, StoreBench, payload_of
from whitedwarf.kvstore.header import Reason

PROMPT = FakeFile().text + b" and more"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def save(bench: StoreBench, text: bytes) -> str | None:
    return bench.open(layout=PACKED_LAYOUT).save(text, payload_of(PackedFile()), Reason.COLD, tools={"c": text})


def test_files_and_a_new_folder_are_private_even_without_a_umask(bench, tmp_path):
    old = os.umask(0)
    try:
        bench.folder = tmp_path / "new" / "deep"
        name = save(bench, b"text")
    finally:
        os.umask(old)
    assert mode(bench.folder) == 0o700
    assert mode(bench.folder / f"{name}.kv") == 0o600
    assert bench.lines == [line for line in bench.lines if "others" not in line]


def test_a_folder_that_others_may_look_into_is_told_and_left_as_it_is(bench):
    bench.folder.chmod(0o755)
    name = save(bench, b"text")
    assert "chmod 700" in bench.lines[0]
    assert "0755" in bench.lines[0]
    assert mode(bench.folder) == 0o755  # it may be /tmp
    assert mode(bench.folder / f"{name}.kv") == 0o600


@pytest.mark.parametrize("wide", [0o644, 0o660, 0o604])
def test_a_file_that_others_could_read_is_made_private_when_it_is_seen(bench, wide):
    path = bench.put(FakeFile())
    path.chmod(wide)
    store = bench.open()
    assert mode(path) == 0o600
    assert [line for line in bench.lines if "could be read by others" in line]
    assert store.take(PROMPT) is not None


def test_a_file_of_another_user_is_not_used(bench, monkeypatch):
    """It would go into prompts, and into states."""
    path = bench.put(FakeFile())
    if os.geteuid() == 0:
        os.chown(path, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert bench.open().take(PROMPT) is None
    assert [line for line in bench.lines if "owner: found user" in line]


def test_a_link_is_neither_read_nor_written_through(bench, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(FakeFile().to_bytes())
    link = bench.folder / f"{FakeFile().name}.kv"
    link.symlink_to(target)
    store = bench.open()
    assert store.take(PROMPT) is None
    assert [line for line in bench.lines if link.stem in line]
    store.save(FakeFile().text, payload_of(FakeFile(n=8)), Reason.COLD)
    assert target.read_bytes() == FakeFile().to_bytes()
    assert not link.is_symlink()
    assert store.take(PROMPT).payload.num_tokens == 8


def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(bench, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    store = bench.open()
    (bench.folder / f"{FakeFile().name}.kv.tmp.{os.getpid()}").symlink_to(target)
    assert store.save(FakeFile().text, payload_of(FakeFile()), Reason.COLD) is not None
    assert target.read_bytes() == b"precious"
    assert bench.names() == {f"{FakeFile().name}.kv"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_what_is_no_file_but_named_like_one_is_skipped_and_left(bench, kind):
    place = bench.folder / f"{FakeFile().name}.kv"
    if kind == "folder":
        place.mkdir()
        (place / "inside").touch()
    else:
        os.mknod(place, (stat.S_IFIFO if kind == "pipe" else stat.S_IFSOCK) | 0o600)
    store = bench.open(budget_bytes=40_000)
    assert store.take(PROMPT) is None
    assert len([line for line in bench.lines if place.stem in line]) == 1
    name = store.save(FakeFile().text, payload_of(FakeFile()), Reason.COLD)
    if kind == "folder":
        assert name is None
        assert (place / "inside").exists()
        assert "could not store" in bench.lines[-1]
    else:
        assert store.take(PROMPT) is not None  # a rename puts a file in its place
    assert not [path for path in bench.folder.iterdir() if ".tmp." in path.name]


@pytest.mark.parametrize("text", [b"../../etc/passwd", b"/etc/passwd\0", b"", b"\xff" * 300, b"a/b\\c\n"])
def test_no_text_leads_out_of_the_folder(bench, text):
    name = save(bench, text)
    assert bench.names() == {f"{name}.kv"}
    assert set(name) <= set("0123456789abcdef")
    assert {path.name for path in bench.folder.parent.iterdir()} == {bench.folder.name}
