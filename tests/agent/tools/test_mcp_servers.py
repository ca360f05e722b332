"""Tools of MCP servers: real ones over both transports, ones that fail in every way, and the file that names them."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.mcp_config import McpServer
from whitedwarf.agent.tools.mcp_servers import McpServers

SMALL = str(Path(__file__).with_name("mcp_small.py"))
START_S = 60.0  # a loaded machine
STDIO = McpServer("small", sys.executable, (SMALL, "stdio"))


@contextmanager
def running(
    *servers: McpServer, start_s: float = START_S, call_s: float = 60.0
) -> Iterator[tuple[dict[str, Tool], list[str]]]:
    """Their tools by name, and the notices."""
    notices: list[str] = []
    here = McpServers(servers, notices.append, start_s, call_s)
    try:
        yield {tool.name: tool for tool in here.tools()}, notices
    finally:
        here.close()
        here.close()


def call(tool: Tool, during: Running | None = None, **values: object) -> Outcome:
    return tool.run(Arguments(values), during or Running())  # type: ignore[arg-type]


def test_a_server_over_stdio_gives_its_tools() -> None:
    secret = "sk-very-secret-value"
    server = McpServer("small", sys.executable, (SMALL, "stdio"), {"TOKEN": secret}, secrets=(secret,))
    before = set(psutil.Process().children())
    with running(server) as (tools, notices):
        add = tools["mcp__small__add"]
        assert add.effect is Effect.RUN
        assert add.definition.description == "Add two numbers."
        assert set(add.definition.parameters["properties"]) == {"first", "second"}  # type: ignore[index, call-overload]
        assert "small: add(first=2, second=3)" in add.summary(Arguments({"first": 2, "second": 3}))
        assert call(add, first=2, second=3) == Outcome("5")
        assert call(add, first="2", second="3") == Outcome("5")  # as DSML may have it
        assert call(tools["mcp__small__environment"], name="TOKEN").text == "[secret]"
        failed = call(tools["mcp__small__fail"])
        assert failed.is_error
        assert "Error executing tool fail" in failed.text
        assert "image/png" in call(tools["mcp__small__picture"]).text
        assert len(call(tools["mcp__small__much"]).text) < 210_000
        assert call(add, first="two").is_error
        assert notices == []
    assert set(psutil.Process().children()) <= before


def test_an_interrupt_and_a_limit_end_the_wait() -> None:
    with running(STDIO, call_s=4.0) as (tools, _):
        interrupted = threading.Event()
        threading.Timer(0.3, interrupted.set).start()
        began_s = time.monotonic()
        with pytest.raises(ToolError, match="interrupted"):
            call(tools["mcp__small__sleep"], Running(interrupted=interrupted), seconds=3)
        assert time.monotonic() - began_s < 3
        with pytest.raises(ToolError):
            call(tools["mcp__small__sleep"], seconds=8)


def test_a_server_that_dies_costs_its_own_tools_only() -> None:
    other = McpServer("other", sys.executable, (SMALL, "stdio"))
    with running(STDIO, other) as (tools, _):
        with pytest.raises(ToolError, match="small"):
            call(tools["mcp__small__die"])
        with pytest.raises(ToolError, match="small"):
            call(tools["mcp__small__add"], first=1, second=1)
        assert call(tools["mcp__other__add"], first=1, second=1).text == "2"


def python(name: str, code: str, *secrets: str) -> McpServer:
    return McpServer(name, sys.executable, ("-c", code), secrets=secrets)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer("gone", "/no/such/program"), "No such file"),
        (python("quits", "import sys; sys.exit('no licence: hunter2-x')", "hunter2-x"), "no licence: [secret]"),
        (python("hangs", "import time; time.sleep(60)"), "did not start within"),
        (python("babbles", "while True: print('{]')"), "babbles"),
        (McpServer("deaf", url="http://127.0.0.1:9/mcp"), "deaf"),
    ],
    ids=lambda value: value.name if isinstance(value, McpServer) else "",
)
def test_a_server_that_does_not_start_is_told_and_left_out(server: McpServer, words: str) -> None:
    start_s = 3.0 if server.name in ("hangs", "babbles") else START_S
    with running(server, start_s=start_s) as (tools, notices):
        assert tools == {}
        assert len(notices) == 1
        assert server.name in notices[0]
        assert words in notices[0]
        assert "hunter2" not in notices[0]


def test_a_server_over_http_gives_its_tools() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SMALL, str(port)], stderr=subprocess.DEVNULL)
    try:
        _await_port(port)
        server = McpServer("web", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer abc"})
        with running(server) as (tools, notices):
            assert notices == []
            add = tools["mcp__web__add"]
            assert add.effect is Effect.NETWORK
            assert call(add, first=2, second=3).text == "5"
            process.kill()
            process.wait()
            with pytest.raises(ToolError, match="web"):
                call(add, first=2, second=3)
    finally:
        process.kill()
        process.wait()


def _await_port(port: int) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_after_the_end_nothing_hangs() -> None:
    with running(STDIO) as (tools, _):
        pass
    with pytest.raises(ToolError):
        call(tools["mcp__small__add"], first=1, second=1)


def test_a_server_that_is_still_starting_is_given_up_at_the_end(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    here = McpServers([python("hangs", code)], lambda text: None, START_S)
    until_s = time.monotonic() + START_S
    while not note.exists() or not note.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.05)
    began_s = time.monotonic()
    here.close()
    assert time.monotonic() - began_s < 60
    assert not psutil.pid_exists(int(note.read_text()))
    assert here.tools() == []


def test_garbage_in_a_list_costs_what_it_is() -> None:
    garbage = McpServer("g", sys.executable, (str(Path(__file__).with_name("mcp_garbage.py")),))
    with running(garbage) as (tools, notices):
        assert "mcp__g__good" in tools
        assert 1 < len(tools) <= 128
        assert all(name.isascii() and name.isprintable() and " " not in name for name in tools)
        assert any("two tools called mcp__g__good" in notice for notice in notices)
        assert any("left out" in notice for notice in notices)
        assert all(notice.isprintable() for notice in notices)
        with pytest.raises(ToolError, match="failed"):
            call(tools["mcp__g__good"])
