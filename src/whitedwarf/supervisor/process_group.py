"""A process and all it started: how to begin them together and how to signal them together.

Linux and macOS: a session of its own, so that one signal reaches all. Linux: the kernel kills the child when we die,
however we die. Windows has neither: the tree is walked with psutil, and a child that outlives us is found by orphans.py
at the next start, as on macOS.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1


def begin_options() -> dict[str, Any]:
    """What subprocess needs to begin a group. For the thread that lives as long as the program: the kernel ends the
    child with the *thread* that started it."""
    if sys.platform == "win32":
        import subprocess

        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "linux":
        options["preexec_fn"] = _die_with_us(os.getpid())
    return options


def signal_group(pid: int, number: int) -> None:
    """To all of the group that there are; none is as good."""
    if sys.platform == "win32":
        _end_tree(pid)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter: only zombies, on macOS
        os.killpg(pid, number)


def is_group_alive(pid: int) -> bool:
    """Whether any of it still runs, the leader apart if it was awaited. Zombies do not: init may be slow with them."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(_is_running(member) for member in group_members(pid))


def group_members(group: int) -> list[int]:
    """All processes of a group but its leader, zombies too; none on Windows, which has no groups."""
    if sys.platform == "win32":
        return []
    import psutil

    found = []
    for pid in psutil.pids():
        try:
            if pid != group and os.getpgid(pid) == group:
                found.append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def _is_running(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _end_tree(pid: int) -> None:
    import psutil

    try:
        leader = psutil.Process(pid)
        tree = [*leader.children(recursive=True), leader]
    except psutil.Error:
        return
    for process in tree:
        try:
            process.kill()
        except psutil.Error:
            continue


def _die_with_us(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # found now: between fork and exec as little is done as can be

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # we died before the kernel knew
            os._exit(1)

    return ask_kernel
