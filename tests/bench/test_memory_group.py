"""Memory groups: made and removed, in both versions, and a program in one seen from outside."""

import os
import sys
from pathlib import Path

import pytest

from whitedwarf.bench.memory_group import GroupUse, MemoryGroup, dropped_from_cache, memory_group
from whitedwarf.bench.watched_process import run_watched
from whitedwarf.errors import UsageError, WhitedwarfError

MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")


def made_up(root: Path, lines: str, *folders: str) -> Path:
    """A system with these groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
    return root


@pytest.fixture
def group() -> object:
    try:
        with memory_group(f"whitedwarf-test-{os.getpid()}", 256 * MIB) as made:
            yield made
    except UsageError as error:
        pytest.skip(str(error))


def test_a_group_of_version_1_gets_a_limit_for_memory_and_swap(tmp_path: Path) -> None:
    root = made_up(tmp_path, "4:memory:/ours\n0::/\n", "memory/ours")
    with memory_group("new", 100, root) as group:
        assert group.folder == root / "sys/fs/cgroup/memory/ours/new"
        assert (group.folder / "memory.limit_in_bytes").read_text() == "100"
        assert (group.folder / "memory.memsw.limit_in_bytes").read_text() == "100"
        (group.folder / "memory.stat").write_text("cache 5\nrss 7\nmapped_file 3\n")
        assert group.use() == GroupUse(anonymous_bytes=7, file_bytes=5)
        for file in group.folder.iterdir():
            file.unlink()  # as the kernel does


def test_a_group_of_version_2_gets_a_limit_and_no_swap(tmp_path: Path) -> None:
    root = made_up(tmp_path, "0::/ours\n", "ours")
    cgroup = root / "sys/fs/cgroup"
    (cgroup / "cgroup.controllers").write_text("memory")
    (cgroup / "ours/cgroup.subtree_control").write_text("cpu memory")
    with memory_group("new", 100, root) as group:
        assert (group.folder / "memory.max").read_text() == "100"
        assert (group.folder / "memory.swap.max").read_text() == "0"
        (group.folder / "memory.stat").write_text("anon 7\nfile 5\n")
        assert group.use() == GroupUse(anonymous_bytes=7, file_bytes=5)
        for file in group.folder.iterdir():
            file.unlink()


def test_a_group_further_out_is_taken_where_ours_allows_none(tmp_path: Path) -> None:
    root = made_up(tmp_path, "0::/outer/ours\n", "outer/ours")
    cgroup = root / "sys/fs/cgroup"
    (cgroup / "cgroup.controllers").write_text("memory")
    (cgroup / "outer/cgroup.subtree_control").write_text("memory")
    with memory_group("new", 100, root) as group:
        assert group.folder == cgroup / "outer/new"
        for file in group.folder.iterdir():
            file.unlink()


@pytest.mark.parametrize("lines", ["", "0::/\n", "3:cpu:/\n"])
def test_where_none_can_be_made_systemd_run_is_named(tmp_path: Path, lines: str) -> None:
    root = made_up(tmp_path, lines)
    with pytest.raises(UsageError, match="systemd-run --user --scope"), memory_group("new", 100, root):
        pass


def test_a_program_is_seen_from_outside(group: MemoryGroup) -> None:
    code = "import time; held = bytearray(64 << 20); print(len(held)); time.sleep(1)"
    watched = run_watched(group, [sys.executable, "-c", code], {})
    assert watched.output.strip() == str(64 << 20)
    assert watched.peak_anonymous_bytes > 60 * MIB
    assert watched.peak.size_bytes <= group.limit_bytes
    assert watched.seconds >= 1


def test_what_it_reads_from_the_disk_is_counted(group: MemoryGroup, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(8 * MIB))
    dropped_from_cache([file])
    code = f"print(len(open({str(file)!r}, 'rb').read()))"
    watched = run_watched(group, [sys.executable, "-c", code], {})
    if watched.read_bytes == 0:
        pytest.skip("this file system is in memory, or nobody counts")
    assert watched.read_bytes is not None
    assert 8 * MIB <= watched.read_bytes < 64 * MIB


def test_one_that_takes_too_much_is_ended_and_told(group: MemoryGroup) -> None:
    code = "held = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): held[i] = 1"
    with pytest.raises(WhitedwarfError, match="killed, probably because its memory was not enough"):
        run_watched(group, [sys.executable, "-c", code], {})


def test_the_last_words_of_one_that_fails_are_told(group: MemoryGroup) -> None:
    with pytest.raises(WhitedwarfError, match="ended with 3: my last words"):
        run_watched(
            group, [sys.executable, "-c", "import sys; print('my last words', file=sys.stderr); sys.exit(3)"], {}
        )


def test_the_groups_are_gone_afterwards() -> None:
    for mount in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        assert not list(mount.glob(f"**/whitedwarf-test-{os.getpid()}"))
