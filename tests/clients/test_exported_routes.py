"""Real agents, set up by what `export-routes` prints: each finds its model, whatever that is called, and is answered.

The server stands at the model's public port. What docs/clients.md says beside the export (no look-ups elsewhere, no
second requests) stays as it is there.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clients.agents import CLAUDE, CODEX, OPENCODE, PI, Agent, Home, settle
from clients.server_process import serving, whole
from whitedwarf.cli.main import main

pytestmark = [pytest.mark.clients, pytest.mark.slow]

ALIAS = "org/模型 v4:q2"
CODEX_SETTINGS = """
check_for_update_on_startup = false
{exported}
[analytics]
enabled = false
[features]
plugins = false
apps = false
unbounded_connection_retries = false
"""


def set_up(home: Home, exported: str) -> Home:
    """Put the export where its reader puts it."""
    folder = home.home
    if home.agent is CODEX:
        (folder / ".codex/config.toml").write_text(CODEX_SETTINGS.format(exported=exported))
    elif home.agent is PI:
        (folder / ".pi/agent/models.json").write_text(exported)
        settings = {"defaultProvider": "local-the-model", "defaultModel": ALIAS}
        (folder / ".pi/agent/settings.json").write_text(json.dumps(settings))
    elif home.agent is OPENCODE:
        path = folder / ".config/opencode/opencode.json"
        beside = json.loads(path.read_text())
        path.write_text(json.dumps({**beside, **json.loads(exported)}))
        return _with(home, home.script.replace("-m whitedwarf/deepseek-v4-flash ", ""))
    else:
        before, claude, after = home.script.partition("claude --")
        return _with(home, f"{before}\n{exported}\n{claude}{after}")
    return home


def _with(home: Home, script: str) -> Home:
    return Home(home.agent, home.clients, home.home, home.work, script)


def export(config: Path, client: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export-routes", str(config), "--for", client]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("agent", [PI, CODEX, OPENCODE, CLAUDE], ids=lambda agent: agent.name)
def test_an_agent_finds_the_model_that_it_is_told_of(
    agent: Agent,
    clients: Path,
    have: Callable[[Agent], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    have(agent)
    answers: Sequence[dict[str, object]] = [whole("I look.</think>The star is found.")]
    with serving(tmp_path, answers, "--ctx", "100000", "--alias", ALIAS) as server:
        config = tmp_path / "models.json"
        port = int(server.url.rpartition(":")[2])
        entry = {"name": "The model", "path": "m.gguf", "alias": ALIAS, "ctxSize": 100_000, "publicPort": port}
        config.write_text(json.dumps({"models": [entry]}))
        home = settle(agent, clients, tmp_path, server.url)
        printed = set_up(home, export(config, agent.name, capsys)).run("Find the star.")
        server.wait_for_requests(1)
    assert "The star is found." in printed
