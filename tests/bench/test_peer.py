"""llama-bench as a companion: what is asked of it, what it answers, and what happens when it cannot."""

import json
import stat
from pathlib import Path

import pytest

from whitedwarf.bench.peer import PeerResult, PeerRun, run_peer
from whitedwarf.errors import WhitedwarfError


def program(folder: Path, script: str) -> PeerRun:
    binary = folder / "llama-bench"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return PeerRun(binary, folder / "m.gguf", prefill_tokens=512, decode_tokens=64, threads=2)


def test_its_tests_become_results(tmp_path: Path) -> None:
    tests = [
        {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 20.5, "stddev_ts": 0.5},
        {"n_prompt": 0, "n_gen": 64, "avg_ts": 3.0, "stddev_ts": 0.1},
    ]
    run = program(tmp_path, f"echo '{json.dumps(tests)}'")
    assert run_peer(run) == [PeerResult("pp512", 0, 20.5, 0.5), PeerResult("tg64", 0, 3.0, 0.1)]
    assert run.command()[1:] == [*f"-m {tmp_path}/m.gguf -t 2 -p 512 -n 64 -r 5 -o json".split()]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo loading >&2; echo 'no such model' >&2; exit 1", "failed: no such model$"),
        ("exit 3", "failed: .*exit status 3"),
        ("echo >&2; exit 3", "failed: .*exit status 3"),
    ],
)
def test_its_last_words_are_told_when_it_fails(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(WhitedwarfError, match=words):
        run_peer(program(tmp_path, script))


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WhitedwarfError, match=r"nowhere failed: .*No such file"):
        run_peer(PeerRun(tmp_path / "nowhere", tmp_path, 1, 1, 1))
