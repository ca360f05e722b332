"""Where the clients are, and how they come there."""

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clients.agents import INSTALLED_BY_DEFAULT, PATIENCE_S, Agent


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clients: $WHITEDWARF_CLIENTS, or a new one, the same for all of xdist's processes."""
    if named := os.environ.get("WHITEDWARF_CLIENTS"):
        return Path(named)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "clients"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def have(clients: Path) -> Callable[[Agent], None]:
    """Install a client if that is ours to do; skip the test where it is not there."""
    failures: list[str] = []  # npm that does not answer is asked once, not for every test

    def have(agent: Agent) -> None:
        if agent.is_installed(clients):
            return
        if failures:
            pytest.skip(f"{agent.program} cannot be installed: {failures[0]}")
        if "WHITEDWARF_CLIENTS" in os.environ or agent.program not in INSTALLED_BY_DEFAULT:
            pytest.skip(f"{agent.program} is not installed under $WHITEDWARF_CLIENTS (docs/clients.md)")
        try:
            with _alone(clients):
                if not agent.is_installed(clients):
                    _install(agent, clients)
        except (OSError, subprocess.SubprocessError) as error:
            failures.append(str(error))
            pytest.skip(f"{agent.program} cannot be installed: {error}")

    return have


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process is in here meanwhile."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(agent: Agent, clients: Path) -> None:
    folder = str(clients / agent.program)
    command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", agent.package]
    subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=True)
