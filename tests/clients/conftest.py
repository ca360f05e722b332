"""Where the clients are, and how they come there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.agents import INSTALLED_BY_DEFAULT, PATIENCE_S, Agent


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clients: $WHITEDWARF_CLIENTS, or a new one."""
    named = os.environ.get("WHITEDWARF_CLIENTS")
    return Path(named) if named else tmp_path_factory.mktemp("clients")


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
            _install(agent, clients)
        except (OSError, subprocess.SubprocessError) as error:
            failures.append(str(error))
            pytest.skip(f"{agent.program} cannot be installed: {error}")

    return have


def _install(agent: Agent, clients: Path) -> None:
    folder = str(clients / agent.program)
    command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", agent.package]
    subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=True)
