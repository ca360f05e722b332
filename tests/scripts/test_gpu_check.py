"""The check of the GPU backend, played through on a CPU; its machinery on cases that fail, hang, or end the process."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'whitedwarf[cuda]'")

from gpu_checks import children
from gpu_checks.case import DEVICE_LOST, Case, CaseError, Ledger, read_ledger, run_cases, share_of
from gpu_checks.children import Child, run_children
from gpu_checks.tables import line, summary, text

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {scripts!r})
from gpu_checks.case import Case, CaseError, Ledger, read_ledger, run_cases
path = Path(sys.argv[sys.argv.index("--ledger") + 1])
until = float(sys.argv[sys.argv.index("--until") + 1])

def off_by(error):
    raise CaseError("too far off", error=error)

def lose():
    lost.append(1)
    raise RuntimeError("an illegal memory access was encountered")

def synchronise():
    if lost:
        raise RuntimeError("lost")

lost = []
cases = [
    Case("ops", "right", lambda: {{"error": 1e-6}}),
    Case("ops", "wrong", lambda: off_by(0.5)),
    Case("ops", "broken", lambda: 1 / 0),
    Case("ops", "loses the device", lose),
    Case("ops", "after it", dict),
    Case("ops", "ends the process", lambda: os._exit(11)),
    Case("ops", "hangs", lambda: time.sleep(60), limit_s=0.5),
    Case("ops", "too long", dict, needs_s=1000),
    Case("ops", "last", dict),
]
done = [outcome.name for outcome in read_ledger(path) if outcome.state != "begun"]
run_cases(cases, Ledger(path), until, done, synchronise)
"""


def test_whatever_a_case_does_the_others_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(scripts=str(ROOT / "scripts")))
    monkeypatch.setattr(children, "SCRIPT", script)
    child = Child("ops", 0, 1, tmp_path, [], dict(os.environ))
    told: list[int] = []
    run_children([child], time.monotonic() + 60, lambda: told.append(1))
    outcomes = read_ledger(child.ledger)
    assert {outcome.name: outcome.state for outcome in outcomes} == {
        "right": "ok",
        "wrong": "failed",
        "broken": "failed",
        "loses the device": "failed",
        "after it": "ok",
        "ends the process": "failed",
        "hangs": "failed",
        "too long": "skipped",
        "last": "ok",
    }
    messages = {outcome.name: outcome.message for outcome in outcomes}
    assert "ZeroDivisionError" in messages["broken"]
    assert "illegal memory access" in messages["loses the device"]
    assert "ended with 11" in messages["ends the process"]
    assert "longer than" in messages["hangs"]
    assert child.restarts == 3
    assert told
    assert summary(outcomes)["cases"] == {"ok": 3, "failed": 5, "skipped": 1}
    assert "too far off" in text(outcomes)
    assert all(outcome.name in line(outcome) for outcome in outcomes)


def test_a_process_that_cannot_begin_is_told_of_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text("import no_such_module")
    monkeypatch.setattr(children, "SCRIPT", script)
    child = Child("parity", 2, 5, tmp_path, [], dict(os.environ))
    run_children([child], time.monotonic() + 30, lambda: None)
    [outcome] = read_ledger(child.ledger)
    assert outcome.state == "failed"
    assert "no_such_module" in outcome.message


def test_when_time_is_over_what_was_begun_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    slow = SCRIPT.replace('"right", lambda: {{', '"right", lambda: time.sleep(60) or {{')
    script.write_text(slow.format(scripts=str(ROOT / "scripts")))
    monkeypatch.setattr(children, "SCRIPT", script)
    child = Child("ops", 0, 1, tmp_path, [], dict(os.environ))
    begun = time.monotonic()
    run_children([child], begun + 4, lambda: None)
    assert time.monotonic() - begun < 50
    assert [outcome.state for outcome in read_ledger(child.ledger)] in ([], ["skipped"])


def test_a_share_keeps_groups_together() -> None:
    cases = [Case("parity", f"{group} {i}", dict, group=group) for group in "abc" for i in range(2)]
    assert [case.name for case in share_of(cases, 0, 2)] == ["a 0", "a 1", "c 0", "c 1"]
    assert [case.name for case in share_of(cases, 1, 2)] == ["b 0", "b 1"]


def test_a_half_written_ledger_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    run_cases([Case("ops", "one", lambda: {"error": 0.0})], ledger, time.monotonic() + 100, [], lambda: None)
    with path.open("a") as file:
        file.write('{"part": "ops", "na')
    assert [outcome.state for outcome in read_ledger(path)] == ["ok"]
    assert issubclass(CaseError, Exception)
    assert DEVICE_LOST not in (0, 1, 2)


@pytest.mark.slow
def test_the_whole_check_on_a_cpu(tmp_path: Path) -> None:
    """Twins in the place of kernels but for the operations."""
    environment = os.environ | {"OUT": str(tmp_path), "TRITON_INTERPRET": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "gpu_check.py"), "--simulate", "--budget", "240"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["failed"] == [], (tmp_path / "failures.txt").read_text()
    assert done.returncode == 0, done.stderr
    assert document["cases"]["skipped"] == 0
    assert document["decode"]
    assert document["prefill"]
    whole = json.loads((tmp_path / "check.json").read_text())
    assert {outcome["part"] for outcome in whole["outcomes"]} == {
        "bandwidth",
        "layers",
        "ops",
        "spans",
        "parity",
        "speed",
    }
    assert "Operations against their twins" in (tmp_path / "check.txt").read_text()
    assert "aten::" in (tmp_path / "profile.txt").read_text()
