"""docs/supervisor.md names every field and no other, and what it shows is read as it stands."""

import re
from pathlib import Path

import pytest

from supervisor.test_config_file import config_of
from whitedwarf.cli.commands import COMMANDS
from whitedwarf.supervisor.config_file import FIELDS
from whitedwarf.supervisor.entries import DEFAULT_FIELDS, ENTRY_FIELDS

PAGE = (Path(__file__).parents[2] / "docs/supervisor.md").read_text()
CODE = re.compile(r"`([^`\n]+)`")


def names_in(heading: str) -> set[str]:
    """The first column of the table that follows."""
    table = PAGE.partition(heading)[2].lstrip().partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {name for line in rows for name in CODE.findall(line.split(" | ")[0])}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_field_for_all_models_is_on_the_page() -> None:
    assert names_in("For all:") == set(FIELDS)


def test_every_field_of_an_entry_is_on_the_page() -> None:
    others = {"url", "apiKeyEnv"}
    assert names_in("needs `name` and `path`:") == set(ENTRY_FIELDS) - others
    told = PAGE.partition("A server of somebody else")[2].partition("\n\n")[0]
    assert {"name", *others, "alias", "publicPort", "ctxSize", "softContextLimit"} <= set(CODE.findall(told))


def test_what_defaults_may_have_is_on_the_page() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `defaults`"))
    times = {name for name in DEFAULT_FIELDS if name.endswith("Sec")}
    assert set(CODE.findall(row)) - {"defaults"} == set(DEFAULT_FIELDS) - times


@pytest.mark.parametrize(("language", "name"), [("toml", "models.toml"), ("json", "models.json")])
def test_the_configs_on_the_page_are_read(language: str, name: str, tmp_path: Path) -> None:
    for block in blocks(language):
        assert config_of(tmp_path, block, name).models


def test_the_commands_on_the_page_exist() -> None:
    known = {command.name for command in COMMANDS}
    shown = set(re.findall(r"whitedwarf (supervise [a-z]+|export-routes|supervise)\b", PAGE))
    shown = {" ".join(words) for line in shown for words in [line.split(" ")] if line in known or len(words) == 1}
    assert shown == {name for name in known if name.startswith(("supervise", "export-routes"))}
