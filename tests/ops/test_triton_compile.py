"""Every Triton kernel compiles for an H200, and the hot ones keep their numbers in registers; no device is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compile_kernels.py"


@pytest.mark.slow
def test_every_kernel_compiles_for_an_h200():
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, SCRIPT, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    specimens = json.loads(done.stdout)["specimens"]
    assert specimens
    assert all(specimen["registers"] > 0 for specimen in specimens)


def test_a_word_that_no_specimen_has_is_refused():
    done = subprocess.run([sys.executable, SCRIPT, "--only", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no specimen has 'nothing' in its name" in done.stderr
