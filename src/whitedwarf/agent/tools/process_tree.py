"""A command and all it started: known by its group, and by a mark in the environment for what left the group.

The supervisor's `process_group.py` does the first for servers of ours, which do not try to get away.
"""

import contextlib
import os
import signal

import psutil

MARK = "WHITEDWARF_JOB"


def signal_group(group: int, number: int) -> None:
    """To all of the group that there are; none is as good."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter: only zombies, on macOS
        os.killpg(group, number)


def is_group_alive(group: int) -> bool:
    """Whether any of it still runs; zombies do not, init may be slow with them."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(_group_of(pid) == group and _is_running(pid) for pid in psutil.pids())


def kill_marked(mark: str) -> None:
    """What carries the mark in its environment, wherever it went. Costs a look at every process."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                process.send_signal(signal.SIGKILL)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
