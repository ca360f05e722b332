"""Tools of an MCP server, through the whole agent: what they give, how they fail, what people are asked."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.scenarios.play import Play, saw
from agent.scenarios.replies import call, calls, says
from whitedwarf.agent.approval import Consent, Policy, Question
from whitedwarf.agent.events import AnswerEnd, ToolBegan
from whitedwarf.agent.tool import Tool
from whitedwarf.agent.tools.mcp_config import McpServer
from whitedwarf.agent.tools.mcp_servers import McpServers

SMALL = str(Path(__file__).parents[1] / "tools" / "mcp_small.py")
DONE = says("Done.")
START_S = 60.0


@contextmanager
def server() -> Iterator[list[Tool]]:
    servers = McpServers([McpServer("small", sys.executable, (SMALL, "stdio"))], lambda notice: None, START_S, 20.0)
    try:
        yield list(servers.tools())
    finally:
        servers.close()


@pytest.fixture(scope="module")
def tools() -> Iterator[list[Tool]]:
    with server() as tools:
        yield tools


def test_arguments_of_all_types_arrive_and_results_come_back(play: Play, tools: list[Tool]) -> None:
    add = call("mcp__small__add", first=2, second="40")
    with play(calls(add), DONE, tools=tools) as scene:
        scene.user("Add them.")
        assert scene.results == ["42"]


def test_each_error_of_a_strangers_tool_is_told(play: Play, tools: list[Tool]) -> None:
    invocations = [
        call("mcp__small__fail"),
        call("mcp__small__add", first="two", second=1),
        call("mcp__small__add"),
        call("mcp__small__add", first=1, second=2, third=3),
        call("mcp__other__add"),
    ]
    with play(calls(*invocations), DONE, tools=tools) as scene:
        scene.user("Do them all.")
        assert scene.turns == [AnswerEnd.DONE]
        assert all(result.startswith("Tool error: ") for result in scene.results[:3])
        assert "there is no tool named 'mcp__other__add'" in scene.told()


def test_a_strangers_tool_is_asked_for(play: Play, tools: list[Tool]) -> None:
    class Somebody:
        asked: list[Question] = []  # noqa: RUF012  (of this test alone)

        def ask(self, question: Question) -> Consent:
            self.asked.append(question)
            return Consent.NO

    somebody = Somebody()
    with play(calls(call("mcp__small__add", first=2, second=3)), DONE, tools=tools, policy=Policy(somebody)) as scene:
        scene.user("Add them.")
        assert "small: add(first=2, second=3)" in somebody.asked[0].summary
        assert scene.results[0].startswith("Tool error: the user does not allow mcp__small__add here")
        somebody.asked.clear()


def test_a_long_result_of_a_stranger_does_not_fill_the_context(play_v4: Play, tools: list[Tool]) -> None:
    with play_v4(calls(call("mcp__small__much")), says("Sum."), says("(read)"), DONE, tools=tools) as scene:
        scene.user("Get it.")
        assert scene.turns == [AnswerEnd.DONE]
        assert "Tool error: the result has" in scene.told()


def test_esc_ends_the_waiting_for_a_stranger(play_v4: Play, tools: list[Tool]) -> None:
    with play_v4(calls(call("mcp__small__sleep", seconds=5)), DONE, tools=tools) as scene:
        scene.when(saw(ToolBegan), lambda: threading.Timer(0.2, scene.agent.interrupt).start())
        scene.user("Sleep.")
        assert scene.turns == [AnswerEnd.INTERRUPTED]
        assert "interrupted" in scene.results[0]


def test_a_stranger_that_dies_is_told_and_the_other_tools_go_on(play_v4: Play) -> None:
    with server() as mortal:
        script = [calls(call("mcp__small__die"), call("list")), calls(call("mcp__small__add", first=1, second=1)), DONE]
        with play_v4(*script, tools=mortal) as scene:
            scene.user("Do it.")
            assert scene.results[0].startswith("Tool error: ")
            assert scene.results[1] == ".: 0 entries"
            assert scene.turns == [AnswerEnd.DONE]
