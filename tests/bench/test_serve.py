"""The instrument for a server under load: it runs, and its report has the shape that scripts read."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from whitedwarf.bench.serve_client import CHAT, Address, chat_body, streamed, user
from whitedwarf.bench.serve_overhead import OverheadSample
from whitedwarf.bench.serve_process import peer_started, started
from whitedwarf.bench.serve_prompts import RestoreSample, TurnsSample, WaitingSample
from whitedwarf.bench.serve_report import Parts, ServeReport
from whitedwarf.bench.serve_streams import StreamsSample
from whitedwarf.cli.main import main
from whitedwarf.errors import WhitedwarfError

OVERHEAD = OverheadSample("chat", False, 100, (100e-6, 140e-6, 150e-6), (50e-6, 60e-6, 70e-6))
STREAMS = (StreamsSample(1, (10.0, 11.0)), StreamsSample(8, (30.0, 31.0)))
WAITING = WaitingSample(20_000, 0.2, (0.01, 0.02), (0.3, 0.4, 0.5))
RESTORE = RestoreSample(25_000, 100.0, (1.0, 2.0, 3.0), (24_990, 24_990, 24_990))
TURNS = TurnsSample(25_000, 9.0, (0.1, 0.2), (25_010, 25_050), (20, 30))
ALL = Parts("whitedwarf", (OVERHEAD,), STREAMS, WAITING, RESTORE, TURNS)


def report_of(*servers: Parts) -> ServeReport:
    return ServeReport("cpu", 2, 0.5, "nano.gguf", 5, servers)


def test_everything_measured_is_told_in_the_table_and_in_json() -> None:
    report = report_of(ALL, Parts("llama-server", streams=STREAMS))
    table = report.table()
    assert "overhead a token, chat, 100 at once: 140.00" in table
    assert "streams  8: 30.50 (29.75-31.25) tokens/s together, 2.90 times one" in table
    assert "2.00 (1.50-2.50) chunks of 200 ms" in table
    assert "24990 tokens from disk, 100000 ms without: 50.0 times" in table
    assert "next ones 150.00" in table
    assert table.count("tokens/s together") == 4
    document = json.loads(report.json_line())
    assert [server["server"] for server in document["servers"]] == ["whitedwarf", "llama-server"]
    assert document["servers"][0]["restore"]["cached_tokens"] == [24_990] * 3
    assert document["servers"][1]["waiting"] is None


@pytest.mark.parametrize(
    ("parts", "met"),
    [
        (ALL, {"overhead": True, "streams": True, "waiting": True, "restore": True}),
        (Parts("whitedwarf"), {}),
        (replace(ALL, overhead=(replace(OVERHEAD, wall_s=(151e-6,)),)), {"overhead": False}),
        (replace(ALL, streams=(STREAMS[0], StreamsSample(8, (26.0,)))), {"streams": False}),
        (replace(ALL, waiting=replace(WAITING, waiting_s=(0.41,))), {"waiting": False}),
        (replace(ALL, restore=replace(RESTORE, restored_s=(2.1,))), {"restore": False}),
    ],
)
def test_the_report_says_which_targets_are_met(parts: Parts, met: dict[str, bool]) -> None:
    assert report_of(parts).meets_targets.items() >= met.items()
    assert len(report_of(parts).meets_targets) == (4 if parts.overhead else 0)


FLAGS = ["--tokens", "1200", "--answer-tokens", "50", "--repeats", "1"]


PEER = """#!{python}
import os, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
context = str(int(given["-c"]) // int(given["-np"]))
flags = ["-m", given["-m"], "--host", given["--host"], "--port", given["--port"], "--parallel", given["-np"]]
os.execv(sys.executable, [sys.executable, "-m", "whitedwarf", "serve", *flags, "--ctx", context])
"""


@pytest.fixture
def llama_server(tmp_path: Path) -> Path:
    """A program with llama-server's flags."""
    path = tmp_path / "llama-server"
    path.write_text(PEER.format(python=sys.executable))
    path.chmod(0o700)
    return path


@pytest.mark.slow
def test_the_command_measures_our_server_and_others(capsys: pytest.CaptureFixture[str], llama_server: Path) -> None:
    with started(["--ctx", "4096"]) as other:
        url = f"http://127.0.0.1:{other.port}"
        peers = ["--peer", str(llama_server), "--peer-url", url]
        assert main(["bench", "serve", "--only", "overhead,turns", *FLAGS, *peers]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    document = json.loads(last)
    ours, *theirs = document["servers"]
    assert len(ours["overhead"]) == 6
    assert ours["overhead"][0]["tokens"] == 50
    assert 1100 < ours["turns"]["tokens"] < 1300
    assert ours["turns"]["cached_tokens"][0] > 1000
    assert [(peer["server"], peer["overhead"]) for peer in theirs] == [("llama-server", []), (url, [])]
    assert all(peer["turns"]["tokens"] == ours["turns"]["tokens"] for peer in theirs)
    assert set(document["meets_targets"]) == {"overhead"}
    assert any("us of processor time" in line for line in table)


@pytest.mark.parametrize(("program", "said"), [("/no/llama-server", "--peer /no"), ("/bin/false", "did not start")])
def test_a_peer_that_does_not_start_is_told(program: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(WhitedwarfError, match=said), peer_started(Path(program), tmp_path, 1, 1):
        pass


@pytest.mark.slow
def test_long_prompts_are_waited_behind_and_restored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", "--only", "waiting,restore", *FLAGS]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    (ours,) = document["servers"]
    assert ours["waiting"]["waiting_s"]
    assert ours["restore"]["cached_tokens"][0] > 500
    assert set(document["meets_targets"]) == {"waiting", "restore"}


@pytest.mark.slow
def test_streams_are_counted_together(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whitedwarf.bench.serve_streams.MOST_TRIES", 2)
    assert main(["bench", "serve", "--only", "streams", "--window-s", "0.4", "--repeats", "1"]) == 0
    streams = json.loads(capsys.readouterr().out.splitlines()[-1])["servers"][0]["streams"]
    assert [sample["clients"] for sample in streams] == [1, 2, 4, 8]
    assert all(sample["tokens_per_s"][0] > 0 for sample in streams)


def test_a_refusal_ends_the_run() -> None:
    with started(["--ctx", "512"]) as server, pytest.raises(WhitedwarfError, match="refused to answer"):
        streamed(Address("127.0.0.1", server.port), CHAT, chat_body([user("word " * 2000)], 1))


def test_a_server_that_does_not_start_ends_the_run() -> None:
    with pytest.raises(WhitedwarfError, match=r"the server did not start: .*no such file"), started(["-m", "/none"]):
        pass


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "streams,nothing"], "expected some of overhead, streams"),
        (["--only", ""], "expected some of overhead"),
        (["--only", "turns", "--peer-url", "https://x:1"], "expected http://HOST:PORT"),
    ],
)
def test_wrong_flags_are_told(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", *flags]) == 2
    assert message in capsys.readouterr().err
