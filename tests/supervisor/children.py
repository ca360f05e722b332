"""Little programs for the tests of processes, and looking at what is left of them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from whitedwarf.supervisor.child import Child, Manners, spawn
from whitedwarf.supervisor.child_log import ChildLog

LLAMA_CHILD = Path(__file__).resolve().parents[1] / "fakes" / "llama_child.py"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
"""Ends for SIGKILL only."""


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def events(log: Path) -> list[dict[str, Any]]:
    """What the stand-ins wrote down, in its order."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


async def until(condition: Callable[[], object]) -> None:
    """Where there is no event to await: another process's doing."""
    import asyncio

    while not condition():
        await asyncio.sleep(0.01)


async def python(
    code: str, folder: Path, *, manners: Manners | None = None, environment: Mapping[str, str] | None = None
) -> Child:
    """A child of ours that runs this code."""
    log = ChildLog(folder / "child.log", 1 << 20)
    return await spawn([sys.executable, "-c", code], log=log, manners=manners, environment=environment)


def end(pid: int) -> None:
    """For what a test leaves behind when it fails."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    time.sleep(0.01)
