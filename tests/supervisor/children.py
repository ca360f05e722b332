"""Little programs for the tests of processes, and looking at what is left of them."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from whitedwarf.supervisor.child import Child, Manners, spawn
from whitedwarf.supervisor.child_log import ChildLog
from whitedwarf.supervisor.config import Backend, ManagedModel, SupervisorConfig

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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def stand_in(folder: Path, *words: str, **changes: Any) -> ManagedModel:
    """A model that the stand-in serves; it writes what happens into `folder`/events (see `events`)."""
    path = folder / "a model.gguf"
    path.touch()
    log = ("--log", str(folder / "events"))
    model = ManagedModel(
        key="m",
        alias="the-model",
        path=path,
        public_port=1,
        internal_port=free_port(),
        backend=Backend.LLAMA_SERVER,
        program=(sys.executable, str(LLAMA_CHILD)),
        arguments=("-m", str(path), *log, *words),
        settle_s=0.0,
        start_timeout_s=10.0,
        stop_grace_s=2.0,
        keeps_state=False,
    )
    return replace(model, **changes)


def config_of(folder: Path, *models: ManagedModel, **changes: Any) -> SupervisorConfig:
    """One with its folders here."""
    config = SupervisorConfig(
        source=folder / "models.json", models=models, state_folder=folder / "state", log_folder=folder / "logs"
    )
    return replace(config, **changes)
