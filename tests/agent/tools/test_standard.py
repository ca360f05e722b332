"""The tools of a session: what is on offer, and how the model sees it."""

from pathlib import Path

import pytest

from whitedwarf.agent.tool import Arguments, Effect, Running
from whitedwarf.agent.tools import standard
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace

PARAMETERS = {  # spec/product.md C.4; `fetch` is ours
    "read": (["path"], {"path", "start_line", "max_lines", "whole", "raw"}),
    "more": ([], {"count"}),
    "write": (["path", "content"], {"path", "content"}),
    "edit": (["path", "old", "new"], {"path", "old", "new"}),
    "search": (["query"], {"query", "path", "mode", "glob", "context", "max_results", "case_sensitive"}),
    "list": ([], {"path"}),
    "bash": (["command"], {"command", "timeout_sec", "refresh_sec"}),
    "bash_status": (["job"], {"job", "pid", "refresh_sec"}),
    "bash_stop": (["job"], {"job", "pid", "refresh_sec"}),
    "fetch": (["url"], {"url", "raw"}),
}


BROWSER_PARAMETERS = {"google_search": (["query"], {"query"}), "visit_page": (["url"], {"url"})}


@pytest.fixture
def toolbox(tmp_path, monkeypatch):
    monkeypatch.setattr(standard, "find_browser", lambda: None)
    toolbox = standard_tools(Workspace(tmp_path))
    yield toolbox
    toolbox.close()


def test_all_tools_are_there_with_their_parameters(toolbox):
    assert {
        tool.name: (tool.parameters["required"], set(tool.parameters["properties"])) for tool in toolbox.definitions
    } == PARAMETERS
    assert all(tool.description for tool in toolbox.definitions)


def test_where_a_browser_is_there_are_two_more(tmp_path, monkeypatch):
    monkeypatch.setattr(standard, "find_browser", lambda: Path("/bin/false"))
    toolbox = standard_tools(Workspace(tmp_path))
    found = {
        tool.name: (tool.parameters["required"], set(tool.parameters["properties"])) for tool in toolbox.definitions
    }
    assert found == PARAMETERS | BROWSER_PARAMETERS
    toolbox.close()


def test_what_they_may_do_is_said(toolbox):
    effects = {name: tool.effect for name, tool in toolbox.tools.items() if tool.effect is not Effect.READ}
    assert effects == {"write": Effect.WRITE, "edit": Effect.WRITE, "bash": Effect.RUN, "fetch": Effect.NETWORK}


@pytest.mark.parametrize(
    "values", [{}, {"path": 1}, {"path": None}, {"path": {"a": []}, "old": [], "job": {}, "url": 0}]
)
def test_no_summary_detail_or_risk_raises_for_odd_arguments(toolbox, values):
    for tool in toolbox.tools.values():
        for say in (tool.summary, tool.detail, tool.risk):
            assert isinstance(say(Arguments(values)), str)


def test_a_small_piece_of_work(toolbox, tmp_path):
    def call(name, **values):
        return toolbox.find(name).run(Arguments(values), Running()).text

    call("write", path="src/a.py", content="def f():\n    return 1\n")
    call("edit", path="src/a.py", old="return 1", new="return 2")
    assert "2 return 2" not in call("search", query="return")
    assert "  2     return 2" in call("search", query="return")
    assert call("read", path="src/a.py").endswith("2     return 2")
    assert call("bash", command="cat src/a.py").endswith("    return 2")
    assert "src/" in call("list")


def test_closing_twice_is_well(toolbox):
    toolbox.close()
    toolbox.close()
