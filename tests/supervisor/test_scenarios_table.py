"""docs/supervisor-scenarios.md names tests: they exist; every scenario has some, on real servers where it says so."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "supervisor-scenarios.md").read_text(encoding="utf-8")
SCENARIO = re.compile(r"^\| (\d+) \| [^|]+ \| (.+) \| (.+) \|$", re.MULTILINE)
REPORT = re.compile(r"^\| (PS\d) \| [^|]+ \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w./]+)::(\w+)`")
WANT_REAL = {1, 2, 4, 6, 10, 11, 16, 17, 27}
"""Those that the specification marks R: on llama-server and on our own engine."""


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(PAGE)
    assert named
    for file, name in named:
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, (file, name)


def test_every_scenario_and_every_report_has_a_test() -> None:
    scenarios = SCENARIO.findall(PAGE)
    assert [int(number) for number, _, _ in scenarios] == list(range(1, 32))
    assert all(NAMED.search(tests) for _, tests, _ in scenarios)
    reports = REPORT.findall(PAGE)
    assert [case for case, _ in reports] == [f"PS{number}" for number in range(1, 9)]
    assert all(NAMED.search(tests) for _, tests in reports)


def test_what_wants_real_servers_has_both() -> None:
    for number, _, tests in SCENARIO.findall(PAGE):
        if int(number) in WANT_REAL:
            files = {file for file, _ in NAMED.findall(tests)}
            assert "test_real_own_engine.py" in files, number
            assert files & {"test_real_supervisor.py", "test_real_launch.py"}, number


def test_every_test_of_our_own_engine_is_on_the_page() -> None:
    tree = ast.parse((HERE / "test_real_own_engine.py").read_text(encoding="utf-8"))
    tests = {
        node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    assert tests <= {name for file, name in NAMED.findall(PAGE) if file == "test_real_own_engine.py"}
