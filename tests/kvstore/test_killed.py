"""kill -9 at any instant leaves whole files only."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.kv_files import read_file
from kvstore.folder import LAYOUT
from whitedwarf.kvstore.dsv4 import read_payload
from whitedwarf.kvstore.file import KvFile

TESTS = Path(__file__).resolve().parents[1]
ROUNDS = 25


def killed_while_saving(folder: Path, start: int, after_s: float) -> None:
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, str(TESTS / "kvstore" / "saving_forever.py"), str(folder), str(start)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_writer_leaves_only_whole_files_and_a_restart_clears_the_rest(bench):
    chance = random.Random(4)
    leftovers = 0
    for round_ in range(ROUNDS):
        killed_while_saving(bench.folder, round_ * 100, chance.uniform(0, 0.06))
        leftovers += sum(".tmp." in name for name in bench.names())
        store = bench.open(budget_bytes=700_000)
        assert not [name for name in bench.names() if ".tmp." in name]
        for path in bench.folder.iterdir():
            with KvFile(path) as file:
                assert read_payload(file.payload(), LAYOUT, path.name).num_tokens == file.header.num_tokens
                assert set(file.tools().values()) <= {b"<A>"}
            read_file(path.read_bytes())
        assert store.tools({"call_all"}) in ({}, {"call_all": b"<A>"})
    assert not [line for line in bench.lines if "skipped" in line]
    assert store.entries()
    print(f"{leftovers} of {ROUNDS} kills left a half-written file")
