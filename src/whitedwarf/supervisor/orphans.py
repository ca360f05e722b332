"""Children of a supervisor that was killed: a record of each child, and their end at the next start.

Promises: only what is certainly ours is ended: a process with the recorded number, which began at the recorded moment
and runs the recorded words, and whose supervisor is gone; and what is left of its group, by a mark in its environment
(a server behind a wrapper script outlives the script). A number that the system has given to somebody else is never
touched. Records are private (0600). Does not know how a child is ended that is not lost: child.py.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from whitedwarf.supervisor.process_group import group_members

MARK = "WHITEDWARF_SUPERVISED"
"""The variable of a child's environment that has the mark of its record."""
_FOLDER = "children"
_SECOND_TERM_S = 2.5
_KILL_S = 10.0
_GONE_S = 5.0
_MOST_BYTES = 8 << 20
_OTHERS_WRITE = 0o022
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and no pipe waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One child: `began` and `supervisor_began` tell processes apart that were given the same number.

    `mark` is what its environment has, and that of whatever it starts.
    """

    key: str
    pid: int
    began: str
    port: int
    argv: tuple[str, ...]
    supervisor_pid: int
    supervisor_began: str
    mark: str

    @classmethod
    def of(cls, key: str, pid: int, port: int, argv: Sequence[str], mark: str) -> "Record":
        """A child that we have just started; psutil.Error where it is gone already."""
        us = os.getpid()
        return cls(
            key=key,
            pid=pid,
            began=_began(pid),
            port=port,
            argv=tuple(argv),
            supervisor_pid=us,
            supervisor_began=_began(us),
            mark=mark,
        )


class Records:
    """Those of one state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / _FOLDER

    def add(self, record: Record) -> None:
        """Before its port is used. OSError where it cannot be written."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._place(record.pid)
        fresh = place.with_suffix(".new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PLAIN, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(asdict(record), file)
            fresh.replace(place)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise

    def remove(self, pid: int) -> None:
        """Once nothing of it is left."""
        with contextlib.suppress(OSError):
            self._place(pid).unlink(missing_ok=True)

    def found(self) -> tuple[list[Record], list[Path]]:
        """Those that can be read, and the files that cannot."""
        records, damaged = [], []
        for place in self._places():
            try:
                records.append(_read(place))
            except (OSError, ValueError, RecursionError):
                damaged.append(place)
        return records, damaged

    def _places(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("*.json"))
        except OSError:  # a folder that cannot be
            return []

    def _place(self, pid: int) -> Path:
        return self._folder / f"{pid}.json"


def stop_orphans(state_folder: Path, kill_s: float = _KILL_S) -> list[str]:
    """End what an earlier supervisor has left running here; returns what was done, a line each, for people."""
    records = Records(state_folder)
    told = []
    found, damaged = records.found()
    for place in damaged:
        told.append(f"{place}: this record of a child cannot be read; removed, whatever it named is left alone")
        with contextlib.suppress(OSError):
            place.unlink()
    lost = [record for record in found if not _is_running(record.supervisor_pid, record.supervisor_began)]
    were_alive = {record.pid for record in lost if _left_of(record)}
    _end(lost, kill_s)
    for record in lost:
        if _left_of(record):
            told.append(f"{_named(record)} outlived its supervisor and cannot be ended")
            continue
        if record.pid in were_alive:
            told.append(f"{_named(record)} outlived its supervisor and was stopped")
        records.remove(record.pid)
    return told


def _named(record: Record) -> str:
    return f"model {record.key!r} (process {record.pid}, port {record.port})"


def _read(place: Path) -> Record:
    """ValueError for what is no record."""
    value = json.loads(_own_text(place))
    try:
        record = Record(**{**value, "argv": tuple(value["argv"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"{place}: expected a record of a child") from error
    numbers = (record.pid, record.port, record.supervisor_pid)
    words = (record.key, record.began, record.supervisor_began, record.mark, *record.argv)
    if not all(type(one) is int and one > 0 for one in numbers) or not all(isinstance(one, str) for one in words):
        raise ValueError(f"{place}: expected a record of a child")
    return record


def _own_text(place: Path) -> bytes:
    """Of a file that only we can have written: whoever else could, would say whom we are to end."""
    with os.fdopen(os.open(place, os.O_RDONLY | _PLAIN), "rb") as file:
        stat = os.fstat(file.fileno())
        if hasattr(os, "getuid") and (stat.st_uid != os.getuid() or stat.st_mode & _OTHERS_WRITE):
            raise ValueError(f"{place}: expected a record of a child that is ours alone")
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"{place}: expected a record of a child, not of more than {_MOST_BYTES} bytes")
    return text


def _left_of(record: Record) -> list[psutil.Process]:
    """What still runs of this child: its leader, and its group."""
    if not _may_be(record.pid, record.began):
        return []  # the number is somebody else's, and so is a group of that number
    is_led = _is_running(record.pid, record.began) and _runs(record.pid, record.argv, record.port)
    found = []
    for pid in (record.pid, *group_members(record.pid)):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            is_marked = process.environ().get(MARK) == record.mark if not is_led else True
            if is_marked and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                found.append(process)
    return found


def _may_be(pid: int, began: str) -> bool:
    try:
        return _began(pid) == began
    except psutil.Error:
        return True  # nobody has the number: its group may still be there


def _is_running(pid: int, began: str) -> bool:
    try:
        return _began(pid) == began and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _runs(pid: int, argv: tuple[str, ...], port: int) -> bool:
    """A script's command line begins with its interpreter; a wrapper that became something else still has the port."""
    try:
        words = tuple(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    same_end = len(argv) > 1 and words[1 - len(argv) :] == argv[1:]
    return words == argv or same_end or str(port) in words


def _began(pid: int) -> str:
    """When, in a form that no change of the clock touches where the system has one."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return f"{_boot()}:{int(fields[19])}"
        except OSError as error:
            raise psutil.NoSuchProcess(pid) from error
    return repr(psutil.Process(pid).create_time())


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _end(records: list[Record], kill_s: float) -> None:
    """All at once: SIGTERM, another, SIGKILL."""
    for number, wait_s in ((signal.SIGTERM, _SECOND_TERM_S), (signal.SIGTERM, kill_s), (_KILL, _GONE_S)):
        left = [process for record in records for process in _left_of(record)]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)  # not to another process that has its number by now
        if left:
            psutil.wait_procs(left, timeout=wait_s)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
