"""The pages name what there is: commands, flags, addresses and metrics; docs/server.md names all of the last two."""

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from server.test_props import FACTS
from whitedwarf.cli.commands import COMMANDS
from whitedwarf.cli.main import main
from whitedwarf.kvstore.stats import StoreStats
from whitedwarf.server.metrics import Metrics
from whitedwarf.server.openapi import openapi_document

ROOT = Path(__file__).parents[2]
SERVER_PAGE = (ROOT / "docs/server.md").read_text()
README = (ROOT / "README.md").read_text()
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
CODE = re.compile(r"`([^`\n]+)`")
ALL_EXPERTS = dict.fromkeys(
    ("cpu_rows", "read_bytes", "waited_seconds", "foreseen", "foreseen_used", "foreseen_unused"), 1.0
)
UNDOCUMENTED = {"/debug/last"}  # by /openapi.json: only a server with --script has it

Help = Callable[[str], set[str]]


@pytest.fixture
def flags_of(capsys: pytest.CaptureFixture[str]) -> Help:
    def flags(command: str) -> set[str]:
        main([*command.split(), "--help"])
        return set(FLAG.findall(capsys.readouterr().out))

    return flags


def first_columns(page: str) -> str:
    """Of all tables."""
    return "\n".join(line.split(" | ")[0] for line in page.splitlines() if line.startswith("| "))


def test_help_breaks_no_name(flags_of: Help) -> None:
    assert {"--disable-exact-dsml-tool-replay", "--kv-cache-continued-interval-tokens"} <= flags_of("serve")


def test_every_flag_on_the_servers_page_exists(flags_of: Help) -> None:
    assert set(FLAG.findall(SERVER_PAGE)) <= flags_of("serve") | {"--help"}


def test_every_way_to_start_a_server_that_is_written_down_works(flags_of: Help) -> None:
    known = flags_of("serve")
    for page in (README, (ROOT / "docs/clients.md").read_text()):
        for line in re.findall(r"whitedwarf serve[^\n`]*", page):
            assert set(FLAG.findall(line.partition("#")[0])) <= known


def test_the_servers_page_has_all_addresses_and_no_other() -> None:
    named = {word.rpartition(" ")[2] for word in CODE.findall(first_columns(SERVER_PAGE)) if "/" in word}
    assert named == set(openapi_document()["paths"]) | UNDOCUMENTED


def test_the_servers_page_has_all_metrics_and_no_other() -> None:
    metrics = SERVER_PAGE.partition("## Metrics")[2].partition("\n## ")[0]
    words = (word.partition("{")[0] for word in CODE.findall(first_columns(metrics)))
    facts = replace(FACTS, disk_stats=lambda: asdict(StoreStats()), expert_stats=lambda: ALL_EXPERTS)
    shown = Metrics(facts).exposition().decode()
    told = set(re.findall(r"^# TYPE whitedwarf_(\w+)", shown, re.MULTILINE))
    assert {word for word in words if word} == {name for name in told if not name.endswith("_created")}


def test_the_readme_has_every_command() -> None:
    named = {word for line in CODE.findall(first_columns(README)) for word in [re.sub(r" [A-Z ]+$", "", line)]}
    assert named == {command.name for command in COMMANDS}
