"""From files on the hub to files in a folder: what is there, whether the rest fits, and then one after the other.

Promises: nothing is fetched before it is known that all of it fits, nothing appears under a final name before size and
digest are right, and whatever ends the work (a cut, a full disk, Ctrl+C) leaves parts from which the next run goes on.
"""

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import DownloadError
from whitedwarf.weights.download import Hub, RemoteFile, TransferCutError
from whitedwarf.weights.part_file import PART_SUFFIX, PartFile, is_whole, open_part, part_path, part_size
from whitedwarf.weights.targets import local_name

REQUEST_BYTES = 8 << 30  # of one request: addresses that the hub hands out end, and its stores refuse more than 50 GB
MOST_FAILURES = 11  # one after the other, without a byte between them: five minutes, for a line that comes back
_LONGEST_WAIT_S = 60.0
_LONGEST_ASKED_WAIT_S = 600.0
_AGAIN = "run the same command again to go on from there"

Step = Callable[[str, int], None]  # what is done ("fetching", "checking"), bytes of this file so far
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Item:
    """One file to have."""

    remote: RemoteFile
    path: Path
    is_present: bool
    part_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.remote.identity.size_bytes

    @property
    def missing_bytes(self) -> int:
        return 0 if self.is_present else self.size_bytes - self.part_bytes


def plan(files: Sequence[RemoteFile], folder: Path) -> tuple[Item, ...]:
    """What has to be done for `files` to lie in `folder`. DownloadError where something is in the way."""
    return tuple(_item(file, folder / local_name(file.path)) for file in files)


def check_space(items: Sequence[Item], folder: Path) -> None:
    """DownloadError where the folder's disk has no room for what is missing."""
    missing = sum(item.missing_bytes for item in items)
    free = shutil.disk_usage(_existing(folder)).free
    if missing > free:
        raise DownloadError(
            f"not enough disk space in {folder}: {gigabytes(missing)} are still to be fetched, {gigabytes(free)} are "
            f"free, {gigabytes(missing - free)} are missing; make room, or give a folder on another disk with --to"
        )


def gigabytes(size_bytes: int) -> str:
    """As download pages count: 1 GB = 10^9 bytes."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} bytes"


def make_folder(folder: Path) -> None:
    """Have the folder. DownloadError where that is not allowed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"cannot make the folder {folder}: {error.strerror}; give another with --to") from error


def check_present(item: Item, step: Step) -> None:
    """Read a file that was there before, whole; DownloadError if it is not the hub's."""
    if not is_whole(item.path, item.remote.identity, lambda done: step("checking", done)):
        raise DownloadError(
            f"{item.path} is not the hub's file: its bytes differ though its size is right; move it away and run again"
        )


def fetch(hub: Hub, item: Item, step: Step, say: Say, sleep: Callable[[float], None] = time.sleep) -> None:
    """Have the file, whole and checked. DownloadError or OSError's message told otherwise; the part stays."""
    with _disk_told(item), open_part(item.path, item.remote.identity, lambda: say(_waiting(item))) as part:
        if part is None:
            _accept_other(item, step)
            return
        resumed = part.take_over(lambda done: step("checking", done))
        _fill(hub, item, part, step, say, sleep)
        if resumed and not part.has_right_digest():
            say(f"{item.path.name}: the part of an earlier run was damaged; fetching all of it again")
            part.clear()
            _fill(hub, item, part, step, say, sleep)
        _finish(item, part, step)


def _fill(hub: Hub, item: Item, part: PartFile, step: Step, say: Say, sleep: Callable[[float], None]) -> None:
    failures = 0
    while part.size_bytes < item.size_bytes:
        before = part.size_bytes
        try:
            with closing(hub.read(item.remote, before, min(item.size_bytes, before + REQUEST_BYTES))) as pieces:
                for piece in pieces:
                    part.append(piece)
                    step("fetching", part.size_bytes)
        except TransferCutError as error:
            failures = 1 if part.size_bytes > before else failures + 1
            if failures >= MOST_FAILURES:
                raise DownloadError(
                    f"{item.path.name}: {error}; {_so_far(item, part.size_bytes)} are kept, {_AGAIN}"
                ) from error
            wait_s = _wait_s(failures, error)
            say(f"{item.path.name}: {error}; trying again in {wait_s:.0f} s")
            sleep(wait_s)


def _wait_s(failures: int, error: TransferCutError) -> float:
    """Longer each time; at least as long as the hub asked for."""
    return max(min(2.0 ** (failures - 1), _LONGEST_WAIT_S), min(error.wait_s, _LONGEST_ASKED_WAIT_S))


def _finish(item: Item, part: PartFile, step: Step) -> None:
    if not part.has_right_digest():
        part.path.unlink(missing_ok=True)
        raise DownloadError(
            f"{item.path.name}: the bytes received are not those that the hub promised (digest "
            f"{item.remote.identity.digest}), and were thrown away. Run the same command again; if it happens twice, "
            "something between here and the hub changes them"
        )
    if part.publish(item.path):
        return
    _accept_other(item, step)
    part.path.unlink(missing_ok=True)


def _accept_other(item: Item, step: Step) -> None:
    """Somebody else put a file there while we fetched: fine if it is the same."""
    if not is_whole(item.path, item.remote.identity, lambda done: step("checking", done)):
        raise DownloadError(
            f"{item.path} appeared meanwhile and is another file; it is kept. Move it away and run again"
        )


def _item(remote: RemoteFile, path: Path) -> Item:
    sidecar = path.with_name(path.name + ".aria2")
    if sidecar.exists():
        raise DownloadError(
            f"{sidecar} says that aria2 has not finished {path.name}; finish there, or remove both files"
        )
    foreign = path.with_name(path.name + PART_SUFFIX)
    if foreign.exists() and not path.exists():
        ours = part_path(path, remote.identity)
        raise DownloadError(
            f"{foreign} was begun by another tool: rename it to {ours.name} to go on from it, or remove it"
        )
    if path.is_symlink() and not path.exists():
        raise DownloadError(f"{path} is a link to {path.readlink()}, which is not there; remove the link")
    if path.is_dir() or (path.exists() and path.stat().st_size != remote.identity.size_bytes):
        found = "a folder" if path.is_dir() else f"a file of {path.stat().st_size} bytes"
        raise DownloadError(
            f"{path} is {found}, the hub's has {remote.identity.size_bytes} bytes; move it away, or give another "
            "folder with --to"
        )
    there = min(part_size(path, remote.identity), remote.identity.size_bytes)
    return Item(remote, path, path.exists(), there)


def _existing(folder: Path) -> Path:
    return next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path("/"))


def _waiting(item: Item) -> str:
    return f"{item.path.name}: another process is fetching it; waiting for that one"


def _so_far(item: Item, done_bytes: int) -> str:
    return f"{gigabytes(done_bytes)} of {gigabytes(item.size_bytes)}"


@contextmanager
def _disk_told(item: Item) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            there = part_size(item.path, item.remote.identity)
            raise DownloadError(
                f"the disk of {item.path.parent} is full: {_so_far(item, there)} of {item.path.name} are kept, "
                f"{gigabytes(item.size_bytes - there)} are missing; make room, then {_AGAIN}"
            ) from error
        where = part_path(item.path, item.remote.identity)
        raise DownloadError(f"cannot write {where}: {error.strerror}; give another folder with --to") from error
