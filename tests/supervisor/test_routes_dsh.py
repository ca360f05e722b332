"""The real DSH reads what is exported for it, whatever the models are called (spec/supervisor.md 7, scenario 29)."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fakes import llama_child
from supervisor.children import free_port
from supervisor.dsh.agent import settle
from supervisor.test_config_file import config_of
from supervisor.test_routes import ODD, odd_routes
from whitedwarf.supervisor.routes import routes_of
from whitedwarf.supervisor.routes_dsh import dsh_text

pytestmark = pytest.mark.clients


class Composed(yaml.SafeLoader):
    """Reads DSH's tree, in which some values are scripts."""


Composed.add_constructor("tag:yaml.org,2002:js", lambda loader, node: node.value)


def test_the_real_dsh_takes_the_patch_as_it_was_meant(dsh_program: Path, tmp_path: Path) -> None:
    routes = odd_routes(tmp_path)
    patch = tmp_path / "routes.yml"
    patch.write_text(dsh_text(routes, is_exact=False, is_patch=True, default=routes[2]), encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    told = subprocess.run(
        [dsh_program, "--profile", "headless", "--patch", patch, "--dump-config"],
        env={"DSH_HOME": str(home), "DSH_TELEMETRY_MODE": "DISABLED", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    rows = {row["id"]: row.get("config") for row in yaml.load(told.stdout, Composed)}
    assert [provider["models"][0]["id"] for provider in rows["llm-pi-ai"]["providers"].values()] == ODD
    assert rows["agent-default-model"] == {"provider": f"local-{routes[2].slug}", "model": "模型"}
    assert len(rows["compaction-basic"]["modelPolicies"]) == len(ODD)


@pytest.mark.parametrize("alias", ["org/name:q4 with space", "模型", "q\"uo'te"])
def test_the_real_dsh_gets_its_answer_from_a_model_of_any_name(alias: str, dsh_program: Path, tmp_path: Path) -> None:
    port = free_port()
    words = ["--port", str(port), "-a", alias, "-c", "32768", "--reply", "All is well."]
    config = config_of(tmp_path, {"models": [{"name": "m", "path": "m", "alias": alias, "publicPort": port}]})
    routes = routes_of(config)
    patch = tmp_path / "routes.yml"
    patch.write_text(dsh_text(routes, is_exact=False, is_patch=True, default=routes[0]), encoding="utf-8")
    with subprocess.Popen([sys.executable, llama_child.__file__, *words], stderr=subprocess.PIPE) as model:
        try:
            assert model.stderr is not None
            assert b"listening" in model.stderr.readline()
            done = settle(dsh_program, tmp_path).run("Is all well?", patches=[patch])
        finally:
            model.kill()
    assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
