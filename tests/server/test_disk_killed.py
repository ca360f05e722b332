"""kill -9 during a save: the next engine gives the answers of one that never saw a disk."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from server.disk_prompts import LENGTHS, prompt_of, serve_settings, store_of
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, GenerateOptions, Reuse
from whitedwarf.weights.store import bundled_model

TESTS = Path(__file__).resolve().parents[1]
OPTIONS = GenerateOptions(max_tokens=8, sampling=GREEDY)
SUFFIX = np.random.default_rng(5).integers(100, 4000, 20).tolist()


def killed_while_answering(folder: Path, written_as: str, after_s: float) -> None:
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, str(TESTS / "server" / "answering_forever.py"), str(folder), written_as]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)


def answers(loaded: LoadedModel, folder: Path | None, written_as: str = "packed") -> dict[int, tuple[Reuse, list[int]]]:
    """What is said after each prompt and a few tokens more, each of which nothing in memory knows."""
    found = {}
    store = store_of(loaded, serve_settings(folder, written_as)) if folder else None
    with Engine(loaded.transformer, prefix_budget_bytes=0, store=store) as engine:
        for length in LENGTHS:
            answer = engine.submit([*prompt_of(length), *SUFFIX], OPTIONS).result(60.0)
            found[length] = answer.finished.reuse, list(answer.ids)
    if store is not None:
        store.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("written_as", ["packed", "ds4"])
def test_after_a_kill_the_answers_are_the_same(tmp_path, written_as) -> None:
    loaded, chance, reused = open_model(ModelSettings(model=str(bundled_model()), context=8192)), random.Random(7), 0
    cold = answers(loaded, None)
    for round_ in range(2):
        folder = tmp_path / str(round_)
        killed_while_answering(folder, written_as, chance.uniform(0.3, 0.9))
        warm = answers(loaded, folder, written_as)
        assert {length: ids for length, (_, ids) in warm.items()} == {n: ids for n, (_, ids) in cold.items()}
        reused += sum(reuse is Reuse.DISK for reuse, _ in warm.values())
    assert reused
