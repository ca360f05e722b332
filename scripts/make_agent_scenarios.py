"""Makes docs/agent-scenarios.md: what can happen to the agent, and the test of each; from tests/agent/scenarios/.

A chapter for each file, with its docstring; a row for each test: its name is what happens. Run it when
tests/agent/scenarios/test_the_table.py says that the page is out of date.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "tests" / "agent" / "scenarios"
TARGET = ROOT / "docs" / "agent-scenarios.md"
HEAD = """\
# What can happen to the agent, and the tests that hold it to its promises

Made by `scripts/make_agent_scenarios.py` from `tests/agent/scenarios/`; not to be edited.

Each scenario drives the whole agent (loop, dialogue, tools, a workspace on disk) with a script in the pieces of
`whitedwarf serve --script`. Whatever it is about, `invariants.py` checks afterwards that turns begin and end by turns;
that every call has its result, and the model is told it word for word; that the transcript is what the engine has read
and drawn, and nothing was read twice; that every answer is closed once; that no thread, no process and no file outside
of the workspace is left or touched; that nothing was logged as an error. *Both*: with the encodings of V4 and of V4.1.

{count} scenarios.
"""


def page() -> str:
    """The whole page."""
    chapters = list(_chapters())
    count = sum(len(rows) for _, rows in chapters)
    return HEAD.format(count=count) + "".join(
        f"\n## {title}\n\n| what happens | test | both |\n|---|---|---|\n" + "".join(rows) for title, rows in chapters
    )


def _chapters() -> Iterator[tuple[str, list[str]]]:
    for path in sorted(SCENARIOS.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        title = (ast.get_docstring(tree) or path.stem).split("\n")[0].rstrip(".")
        if path.stem != "test_the_table":
            yield title, [_row(path.name, test) for test in tests]


def _row(file: str, test: ast.FunctionDef) -> str:
    what = test.name.removeprefix("test_").replace("_", " ")
    cases = "; ".join(filter(None, [_cases(test)]))
    both = "both" if any(argument.arg == "play" for argument in test.args.args) else ""
    return f"| {what}{f' ({cases})' if cases else ''} | `{file}::{test.name}` | {both} |\n"


def _cases(test: ast.FunctionDef) -> str:
    """That there are several, where the test is run with several values."""
    names = [
        ast.literal_eval(decorator.args[0])
        for decorator in test.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize"
    ]
    flat = [", ".join(name) if isinstance(name, tuple) else str(name) for name in names]
    return f"for each {' and '.join(flat)}" if flat else ""


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(f"wrote {TARGET}")
