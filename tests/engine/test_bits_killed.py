"""kill -9 while a state is saved: the next engine answers with the same bits, from every file that is whole (P16)."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.bits import ask, cold, on_disk, prompt
from engine.killed_prompts import rounds
from whitedwarf.engine.request import Reuse

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = TESTS / "engine" / "saving_states.py"
ROUNDS = 3
PER_ROUND = 7
STARTED_WITHIN_S = 60.0


def half_written(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder) if ".tmp." in entry.name}


def kill_in_a_save(folder: Path, start: int) -> bool:
    """Run the program from prompt `start` on, and kill it in a save after its first whole file -> it was in one."""
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, str(PROGRAM), str(folder), str(start)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        num_before, end_s = len(list(folder.glob("*.kv"))), time.monotonic() + STARTED_WITHIN_S
        while len(list(folder.glob("*.kv"))) < num_before + PER_ROUND - 2 or not half_written(folder):
            assert time.monotonic() < end_s, "nothing was saved"
        process.send_signal(signal.SIGKILL)
        process.wait()
    return bool(half_written(folder))


def test_answers_after_a_kill_are_those_from_before(tmp_path: Path) -> None:
    num_in_a_save, reuses = 0, set()
    for round_ in range(ROUNDS):
        start = round_ * PER_ROUND
        num_in_a_save += kill_in_a_save(tmp_path, start)
        with on_disk(tmp_path) as engine:
            assert not half_written(tmp_path)
            for number, ids in enumerate(itertools.islice(rounds(start), PER_ROUND)):
                longer = (*ids, *prompt((1, 2, 17, 300)[number % 4], seed=5))
                answer = ask(engine, longer)
                assert answer.tokens == cold(longer)
                reuses.add(answer.finished.reuse)
    assert Reuse.DISK in reuses
    assert num_in_a_save, f"none of {ROUNDS} kills came in a save"
