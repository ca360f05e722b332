"""The real DSH reads what is exported for it, whatever the models are called (spec/supervisor.md 7, scenario 29)."""

import subprocess
from pathlib import Path

import pytest
import yaml

from supervisor.test_routes import ODD, odd_routes
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
