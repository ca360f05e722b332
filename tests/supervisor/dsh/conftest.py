"""A real DSH, a supervisor that only looks like one, and a model that answers when the commands have run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fakes import llama_child
from supervisor.dsh.agent import Dsh, route, settle
from supervisor.dsh.stand_in import StandIn, free_port


@pytest.fixture
def dsh(dsh_program: Path, tmp_path: Path) -> Dsh:
    """Freshly installed."""
    return settle(dsh_program, tmp_path)


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    """None runs when the test has ended."""
    here = StandIn(tmp_path)
    here.behave()
    yield here
    for pid in here.living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def answering(dsh: Dsh, tmp_path: Path) -> Iterator[Path]:
    """A patch with the route to a model that answers at once when no commands are to be run, else after them."""
    port = free_port()
    command = [sys.executable, llama_child.__file__, "--port", str(port), "-c", "200000", "--reply", "All is well."]
    with subprocess.Popen([*command, "--answer-when", str(dsh.commands_done)], stderr=subprocess.PIPE) as model:
        assert model.stderr is not None
        assert b"listening" in model.stderr.readline()
        patch = tmp_path / "route.yml"
        patch.write_text(json.dumps(route(port)))
        yield patch
        model.kill()
