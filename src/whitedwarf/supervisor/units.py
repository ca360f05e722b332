"""What starts the supervisor with the machine: a systemd unit of the user, or a launchd agent.

Pure: texts, where they belong, and the commands that put them to use. Nothing is written or run here.
"""

import plistlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import SupervisorConfig

_SPARE_S = 30  # for the end of what is not a model
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_CARRIED = ("PATH", "PYTHONPATH", "XDG_STATE_HOME")
"""Variables of the shell that decide what a config means: where programs and we are, where state goes."""


class Starter(StrEnum):
    """Who starts it."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """A file to write, and the commands that then start it, and those that take it back."""

    path: Path
    text: str
    commands: tuple[str, ...]
    undo: tuple[str, ...]


def unit_plan(
    starter: Starter, config: SupervisorConfig, name: str, python: str, environment: Mapping[str, str]
) -> UnitPlan:
    """`python` runs it; `environment` is the installing shell's, with HOME."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--unit-name {name!r}: expected letters, digits, - _ and . only")
    words = [python, "-P", "-m", "whitedwarf", "supervise", str(config.source)]
    if any(ord(char) < ord(" ") for word in words for char in word):
        raise UsageError(f"{config.source}: a path with control characters cannot stand in a unit; rename it")
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise UsageError("--install: expected $HOME to be a folder, where units of the user lie; it is not set")
    carried = {variable: environment[variable] for variable in _CARRIED if environment.get(variable)}
    if starter is Starter.SYSTEMD:
        root = Path(environment.get("XDG_CONFIG_HOME") or Path(home) / ".config")
        return _systemd(root / "systemd/user" / f"{name}.service", words, carried, _stop_s(config))
    path = Path(home) / "Library/LaunchAgents" / f"org.whitedwarf.{name}.plist"
    return _launchd(path, words, carried, _stop_s(config), config.log_folder / "supervisor.log")


def _stop_s(config: SupervisorConfig) -> int:
    return round(max([model.stop_grace_s for model in config.managed], default=0.0)) + _SPARE_S


def _systemd(path: Path, words: Sequence[str], carried: Mapping[str, str], stop_s: int) -> UnitPlan:
    lines = [
        "[Unit]",
        "Description=whitedwarf supervise: models that start when they are asked for",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_systemd_word(word, is_command=True) for word in words)}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        *(f"Environment={_systemd_word(f'{name}={value}')}" for name, value in carried.items()),
        "Restart=on-failure",
        "RestartSec=5",
        "# The supervisor stops its models itself; what it left behind is killed with it.",
        "KillMode=mixed",
        f"TimeoutStopSec={stop_s}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    unit, file = path.name, shlex.quote(str(path))
    commands = ("systemctl --user daemon-reload", f"systemctl --user enable --now {unit}", "loginctl enable-linger")
    return UnitPlan(
        path, "\n".join(lines) + "\n", commands, (f"systemctl --user disable --now {unit}", f"rm {file}", commands[0])
    )


def _systemd_word(word: str, *, is_command: bool = False) -> str:
    """In quotes; % and, in command lines, $ mean something to systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if is_command else escaped}"'


def _launchd(path: Path, words: Sequence[str], carried: Mapping[str, str], stop_s: int, log: Path) -> UnitPlan:
    agent = {
        "Label": path.stem,
        "ProgramArguments": list(words),
        "EnvironmentVariables": dict(carried),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": stop_s,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    file = shlex.quote(str(path))
    return UnitPlan(
        path,
        plistlib.dumps(agent, sort_keys=False).decode(),
        (f"mkdir -p {shlex.quote(str(log.parent))}", f"launchctl bootstrap gui/$(id -u) {file}"),
        (f"launchctl bootout gui/$(id -u)/{path.stem}", f"rm {file}"),
    )
