"""What starts the supervisor with the machine, as systemd and launchd read it."""

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from supervisor.test_config_file import config_of
from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import SupervisorConfig
from whitedwarf.supervisor.units import Starter, UnitPlan, unit_plan

SHELL = {"HOME": "/home/ann", "PATH": "/opt/llama bin:/usr/bin", "XDG_STATE_HOME": "/state", "EDITOR": "vi"}


def config_at(folder: Path) -> SupervisorConfig:
    models = [{"name": "a", "path": "a.gguf", "stopGraceSec": 45}, {"name": "b", "url": "http://127.0.0.1:1"}]
    folder.mkdir(exist_ok=True)
    return config_of(folder, {"models": models})


def plan(config: SupervisorConfig, starter: Starter, python: str = "/usr/bin/python3") -> UnitPlan:
    return unit_plan(starter, config, "wd", python, SHELL)


def test_a_systemd_unit_runs_the_config_and_waits_for_its_models(tmp_path: Path) -> None:
    config = config_at(tmp_path)
    told = plan(config, Starter.SYSTEMD)
    assert told.path == Path("/home/ann/.config/systemd/user/wd.service")
    lines = told.text.splitlines()
    assert f'ExecStart="/usr/bin/python3" "-P" "-m" "whitedwarf" "supervise" "{config.source}"' in lines
    assert {'Environment="PATH=/opt/llama bin:/usr/bin"', 'Environment="XDG_STATE_HOME=/state"'} <= set(lines)
    assert {"KillMode=mixed", "TimeoutStopSec=75", "Restart=on-failure", "WantedBy=default.target"} <= set(lines)
    assert "EDITOR" not in told.text
    assert told.commands == (
        "systemctl --user daemon-reload",
        "systemctl --user enable --now wd.service",
        "loginctl enable-linger",
    )
    assert told.undo[0] == "systemctl --user disable --now wd.service"


def test_what_means_something_to_systemd_is_escaped(tmp_path: Path) -> None:
    config = config_at(tmp_path / '50% "$HOME" \\ ü')
    told = plan(config, Starter.SYSTEMD)
    assert f'"{tmp_path}/50%% \\"$$HOME\\" \\\\ ü/models.json"' in told.text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_itself_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    told = plan(config_at(tmp_path / '50% "$HOME" ü'), Starter.SYSTEMD, python=shutil.which("true") or "/bin/true")
    unit = tmp_path / told.path.name
    unit.write_text(told.text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**SHELL, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert [line for line in ran.stderr.splitlines() if told.path.name in line] == []


def test_a_launchd_agent_is_read_back_as_it_was_meant(tmp_path: Path) -> None:
    config = config_at(tmp_path / "a & <b> ü")
    told = plan(config, Starter.LAUNCHD)
    assert told.path == Path("/home/ann/Library/LaunchAgents/org.whitedwarf.wd.plist")
    agent = plistlib.loads(told.text.encode())
    assert agent["Label"] == "org.whitedwarf.wd"
    assert agent["ProgramArguments"] == ["/usr/bin/python3", "-P", "-m", "whitedwarf", "supervise", str(config.source)]
    assert (agent["KeepAlive"], agent["RunAtLoad"], agent["ExitTimeOut"]) == ({"SuccessfulExit": False}, True, 75)
    assert agent["EnvironmentVariables"] == {"PATH": SHELL["PATH"], "XDG_STATE_HOME": "/state"}
    assert told.commands[1] == "launchctl bootstrap gui/$(id -u) /home/ann/Library/LaunchAgents/org.whitedwarf.wd.plist"


@pytest.mark.parametrize("name", ["", "a b", "../x", "a\n", ".hidden", "x" * 101])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--unit-name"):
        unit_plan(Starter.SYSTEMD, config_at(tmp_path), name, "/usr/bin/python3", SHELL)


def test_without_a_home_there_is_no_place_for_a_unit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected \$HOME"):
        unit_plan(Starter.SYSTEMD, config_at(tmp_path), "wd", "/usr/bin/python3", {})
