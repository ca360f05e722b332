"""docs/agent-scenarios.md is what its script makes of the scenarios as they are now."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LEAST = 60  # scenarios


def test_the_page_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "make_agent_scenarios.py"))
    assert made["TARGET"].read_text(encoding="utf-8") == made["page"](), "run scripts/make_agent_scenarios.py"


def test_there_are_as_many_scenarios_as_were_asked_for() -> None:
    page = (ROOT / "docs" / "agent-scenarios.md").read_text(encoding="utf-8")
    assert page.count("::test_") >= LEAST
