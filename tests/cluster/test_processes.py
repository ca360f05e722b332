"""The commands of a cluster, as users start and end them."""

import json
import os
import signal

import pytest

from fakes.cluster_processes import ClusterProcesses
from whitedwarf.cli.main import main

pytestmark = pytest.mark.slow


def test_members_join_say_what_they_hold_and_leave_with_ctrl_c(
    processes: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    place = processes.meet()
    member = processes.join("--layers", "3:output")
    member.until("joined as")
    words = ["cluster", "status", f"127.0.0.1:{processes.port}", *processes.patience()]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["members"]
    assert one["asked"] == one["loaded"] == "3:output"
    assert one["present"] == "0:output"
    assert one["memory_bytes"] > 0
    assert one["read_bytes_per_s"] > 0
    assert main(words) == 0
    assert "holds 3:output" in capsys.readouterr().out
    assert member.end(signal.SIGINT) == 130
    assert "Traceback" not in member.said
    place.kill()  # members find it again at its old place
    second = processes.join("--layers", "0:1")
    second.until("trying again")
    processes.meet()
    second.until("joined as")
    assert second.end() == 0
    assert processes.all[-1].said.count("Traceback") == 0


def test_the_bench_measures_a_model_in_one_two_and_three_processes(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        words = ["--prompt-tokens", "96", "--prefill-chunk", "32", "-n", "8", "--repeats", "1"]
        assert main(["bench", "cluster", *words]) == 0
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)
    table, document = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert "through two processes" in table
    told = json.loads(document)
    assert set(told["added_per_hop_s"]) == {"1", "2"}
    assert told["is_encrypted"]
