"""`whitedwarf supervise`: models that start when they are needed, behind ports that never change."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from cyclopts import Group, Parameter

from whitedwarf.errors import UsageError

if TYPE_CHECKING:
    from whitedwarf.supervisor.config import SupervisorConfig

_LOOK = Group.create_ordered("Instead of running")


def command(
    config: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    dump_models: Annotated[bool, Parameter(group=_LOOK)] = False,
    check: Annotated[bool, Parameter(group=_LOOK)] = False,
    install: Annotated[Literal["systemd", "launchd"] | None, Parameter(group=_LOOK)] = None,
    yes: Annotated[bool, Parameter(group=_LOOK)] = False,
    unit_name: Annotated[str, Parameter(group=_LOOK)] = "whitedwarf-supervisor",
) -> int:
    """Take the ports of all models and start each one when a request for it comes, until SIGTERM or Ctrl+C.

    Idle models are stopped and give all their memory back. docs/supervisor.md has the fields of the config.
    `whitedwarf supervise status`, `unload`, `start`, `logs` and `stop` ask one that runs; each has a --help.

    Parameters
    ----------
    config
        The models: a .toml file, or JSON with comments (models.json).
    dump_models
        Print the models with all their ports and defaults as JSON.
    check
        Say what is wrong with the config, and what may be: 0 for nothing wrong, 2 otherwise.
    install
        Print a unit that starts the supervisor with the machine, and the commands that put it to use.
    yes
        With --install: write that unit. The commands are still yours to run.
    unit_name
        The unit's name, for machines with several supervisors.
    """
    from whitedwarf.supervisor.checks import keys_of
    from whitedwarf.supervisor.config_file import read_config

    if yes and install is None:
        raise UsageError("--yes belongs to --install systemd or --install launchd; leave it out")
    decided = read_config(config)
    if dump_models:
        return _dump(decided)
    keys_of(decided)
    if install is not None:
        from whitedwarf.cli.supervise_install import install_unit

        return install_unit(decided, install, unit_name, is_confirmed=yes)
    return _check(decided) if check else _become_supervisor(config)


def _dump(config: "SupervisorConfig") -> int:
    import json

    from whitedwarf.cli.utf8_output import speak_utf8
    from whitedwarf.supervisor.dump import dumped

    speak_utf8()
    print(json.dumps(dumped(config), indent=2, ensure_ascii=False))
    return 0


def _check(config: "SupervisorConfig") -> int:
    from whitedwarf.supervisor.checks import warnings_of

    for line in warnings_of(config):
        print(f"whitedwarf: warning: {line}", file=sys.stderr)
    for model in config.models:
        print(f"{model.public_port}  {model.key}")
    return 0


def _become_supervisor(config: Path) -> NoReturn:
    """The same process without the command line's libraries: the supervisor promises to stay small.

    -P: modules are not looked for in the folder that we happen to be in. -X utf8: names of files are what the config
    says, also where the locale knows ASCII only.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-X", "utf8", "-m", "whitedwarf.supervisor", str(config)])
