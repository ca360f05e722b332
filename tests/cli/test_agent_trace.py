"""The agent's trace: whole texts, masked, private, and never the agent's end."""

import errno
import json
import logging
import os
from pathlib import Path

import pytest

from whitedwarf.agent.events import (
    AnswerEnd,
    Drawn,
    Event,
    Notice,
    Reading,
    ToolBegan,
    ToolOutput,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.secrets import Secrets
from whitedwarf.cli.agent_trace import AgentTrace, logged_to
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta
from whitedwarf.errors import UsageError

SECRETS = Secrets(("hunter2-hunter2",))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_become_lines_with_whole_masked_texts(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"event": "older"}\n')
    path.chmod(0o644)
    trace = AgentTrace.open(path, SECRETS, [].append)
    heard: list[Event] = []
    listen = trace.beside(heard.append)
    events: list[Event] = [
        TurnBegan("the key is hunter2-hunter2"),
        Reading(0, 5, 0, 0.0),
        Reading(5, 5, 0, 0.1),
        ReasoningDelta("hunter2-"),
        ReasoningDelta("hunter2"),
        TextDelta("So it"),
        Drawn(1, 0.1),
        TextDelta(" is."),
        ArgumentsDelta(0, "{"),
        ToolBegan(0, "bash", "$ env", {"command": "echo hunter2-hunter2", "deep": ["hunter2-hunter2"]}),
        TurnEnded(AnswerEnd.DONE, 9),
        TextDelta("cut"),
    ]
    for event in events:
        listen(event)
    trace.close()
    trace.close()
    assert heard == events
    assert path.stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in path.read_text()
    older, began, *told = lines(path)
    assert older == {"event": "older"}
    assert (began["event"], began["pid"]) == ("Began", os.getpid())
    assert [line["event"] for line in told] == [
        "TurnBegan",
        "Reading",
        "Reasoning",
        "Text",
        "ToolBegan",
        "TurnEnded",
        "Text",
    ]
    assert told[2]["text"] == "[secret]"
    assert told[3]["text"] == "So it is."
    assert told[4]["arguments"] == {"command": "echo [secret]", "deep": ["[secret]"]}


def test_what_a_command_prints_is_masked_also_where_it_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    trace = AgentTrace.open(path, SECRETS, [].append)
    pieces = ["x\n" * 400_000, "y\n" * 400_000 + "a key: hunt", "er2-hunter2\n", "end"]
    for piece in pieces:
        trace.hear(ToolOutput(0, piece))
    trace.hear(Notice("done"))
    trace.close()
    told = [line for line in lines(path) if line["event"] == "ToolOutput"]
    assert len(told) == 2  # nothing is held for long
    assert "".join(str(line["text"]) for line in told) == "".join(pieces).replace("hunter2-hunter2", "[secret]")


def test_where_no_file_can_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--trace"):
        AgentTrace.open(tmp_path, SECRETS, [].append)
    with pytest.raises(UsageError, match="--trace"):
        AgentTrace.open(tmp_path / "none" / "trace", SECRETS, [].append)


def test_what_is_logged_goes_to_the_trace_and_to_no_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace"
    trace = AgentTrace.open(path, SECRETS, [].append)
    log = logging.getLogger("whitedwarf.agent.loop")
    with logged_to(trace):
        try:
            raise ValueError("hunter2-hunter2")
        except ValueError:
            log.exception("turn_failed")
    with logged_to(None):
        log.error("nobody hears")
    trace.close()
    told = lines(path)[-1]
    assert (told["event"], told["level"]) == ("Log", "ERROR")
    assert "turn_failed" in str(told["text"])
    assert "ValueError: [secret]" in str(told["text"])
    assert capsys.readouterr().err == ""


def test_a_full_disk_ends_the_trace_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    trace = AgentTrace.open(tmp_path / "trace", SECRETS, told.append)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    trace.hear(TextDelta("x"))
    trace.hear(Notice("y"))
    trace.hear(Notice("z"))
    trace.close()
    assert len(told) == 1
    assert "the trace ends here" in told[0]


def test_no_pipe_is_waited_for_and_no_device_loses_its_permissions(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(UsageError, match="no regular file"):
            AgentTrace.open(tmp_path / "pipe", SECRETS, [].append)
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").stat().st_mode & 0o777 == 0o644
    with pytest.raises(UsageError, match="--trace"):  # nobody reads it now
        AgentTrace.open(tmp_path / "pipe", SECRETS, [].append)
    before = Path(os.devnull).stat().st_mode
    with pytest.raises(UsageError, match="no regular file"):
        AgentTrace.open(Path(os.devnull), SECRETS, [].append)
    assert Path(os.devnull).stat().st_mode == before
    with pytest.raises(UsageError, match="--trace"):
        AgentTrace.open(tmp_path / "a\0b", SECRETS, [].append)


def test_a_line_that_is_taken_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = AgentTrace.open(tmp_path / "trace", SECRETS, [].append)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    trace.hear(Notice("a long line"))
    trace.close()
    assert lines(tmp_path / "trace")[-1]["text"] == "a long line"
