"""kill -9 at any instant leaves whole files only."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvstore.folder import PACKED_LAYOUT, StoreBench
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.store import FORMATS

TESTS = Path(__file__).resolve().parents[1]
ROUNDS = 15


def start_saving(folder: Path, start: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, str(TESTS / "kvstore" / "saving_forever.py"), str(folder), str(start)]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def killed_while_saving(folder: Path, starts: list[int], after_s: float) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(start_saving(folder, start)) for start in starts]
        time.sleep(after_s)
        assert [process.poll() for process in processes] == [None] * len(starts)
        for process in processes:
            process.send_signal(signal.SIGKILL)


def check_whole(bench: StoreBench) -> None:
    """A restart finds only whole files, and clears the rest."""
    store = bench.open(budget_bytes=700_000, layout=PACKED_LAYOUT)
    assert not [name for name in bench.names() if ".tmp." in name]
    for path in bench.folder.iterdir():
        with KvFile(path) as file:
            format = FORMATS[file.header.payload_kind]
            payload = format.read_payload(file.payload(), PACKED_LAYOUT, path.name)
            assert payload.num_tokens == file.header.num_tokens
            assert set(file.tools().values()) <= {b"<A>"}
    assert store.tools({"call_all"}) in ({}, {"call_all": b"<A>"})
    assert not [line for line in bench.lines if "skipped" in line]


@pytest.mark.slow
def test_a_killed_writer_leaves_only_whole_files_and_a_restart_clears_the_rest(bench):
    chance = random.Random(4)
    leftovers = 0
    for round_ in range(ROUNDS):
        killed_while_saving(bench.folder, [round_ * 100], chance.uniform(0, 0.06))
        leftovers += sum(".tmp." in name for name in bench.names())
        check_whole(bench)
    assert bench.open(layout=PACKED_LAYOUT).entries()
    print(f"{leftovers} of {ROUNDS} kills left a half-written file")


@pytest.mark.slow
def test_two_processes_share_a_folder_until_both_are_killed(bench):
    for round_ in range(3):
        killed_while_saving(bench.folder, [round_ * 100, round_ * 100 + 3], 1.0)
        check_whole(bench)
        assert bench.open(layout=PACKED_LAYOUT).entries()
