"""The commands of a cluster, as users start and end them."""

import json
import signal

import pytest

from fakes.cluster_processes import ClusterProcesses
from whitedwarf.cli.main import main


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
