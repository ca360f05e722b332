"""docs/demand.md and docs/sdks.md name tests: they exist, and every case that concerns the server has one."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "demand.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (P\d\d|E0) \| [^|]+ \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w./]+)::(\w+)`")
NOT_THE_SERVERS = {30, 31, 32, 33, 36}


@pytest.mark.parametrize("page", ["demand.md", "sdks.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    named = NAMED.findall((DOCS / page).read_text(encoding="utf-8"))
    assert named
    for file, name in named:
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (file, name)


def test_every_case_of_the_server_has_a_test() -> None:
    rows = dict(ROW.findall(PAGE))
    assert set(rows) == {f"P{number:02}" for number in range(1, 37) if number not in NOT_THE_SERVERS} | {"E0"}
    assert all(NAMED.search(tests) for tests in rows.values())


def test_the_tests_say_which_case_they_are() -> None:
    for case, tests in ROW.findall(PAGE):
        for file, name in NAMED.findall(tests):
            if not file.startswith("test_demand"):
                continue
            tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
            (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
            assert (ast.get_docstring(function) or "").startswith(f"{case}: "), (file, name)


def test_every_test_of_the_libraries_is_on_its_page() -> None:
    named = {name for _, name in NAMED.findall((DOCS / "sdks.md").read_text(encoding="utf-8"))}
    for file in sorted(HERE.glob("test_sdk_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
        assert tests <= named, tests - named
