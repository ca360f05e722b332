"""SIGTERM in the middle of a large file: nothing half-written stays, and the code is the shell's."""

import os
import signal
from pathlib import Path

import pytest

from whitedwarf.cli.termination import TERMINATED, tidy_termination
from whitedwarf.gguf.synth import synthesise


def test_a_terminated_writer_leaves_nothing_and_the_signal_is_given_back(tmp_path: Path) -> None:
    target, before = tmp_path / "m.gguf", signal.getsignal(signal.SIGTERM)
    target.write_bytes(b"old")
    with pytest.raises(SystemExit) as caught, tidy_termination():
        synthesise(target, layers=1, progress=lambda done, total: os.kill(os.getpid(), signal.SIGTERM))
    assert caught.value.code == TERMINATED
    assert ([each.name for each in tmp_path.iterdir()], target.read_bytes()) == (["m.gguf"], b"old")
    assert signal.getsignal(signal.SIGTERM) is before
