"""nano's answers to a few questions come out as they did: statuses, answers, token counts.

`python scripts/make_eval_golden.py` writes them anew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from whitedwarf.weights.store import bundled_model

GOLDEN = Path(__file__).parents[1] / "golden" / "evals" / "nano.json"


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--parallel", "4", "--prefill-chunk", "64"]])
def test_nano_answers_as_it_did(more: list[str]) -> None:
    command = json.loads(GOLDEN.read_text())["command"]
    words = [*command, *more, "-m", str(bundled_model()), "--expect", str(GOLDEN)]
    result = subprocess.run(
        [sys.executable, "-m", "whitedwarf", *words],
        capture_output=True,
        text=True,
        cwd=GOLDEN.parent,
        env=os.environ | {"WHITEDWARF_CPU_LEVEL": "scalar"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "4 cases as expected" in result.stderr


def test_the_golden_exam_has_thoughts_that_were_closed_by_force() -> None:
    kinds = {case["think_close"]["kind"] for case in json.loads(GOLDEN.read_text())["cases"]}
    assert "hard_forced" in kinds
