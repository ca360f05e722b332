"""`whitedwarf supervise stop`: end a running supervisor with all its models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from whitedwarf.errors import WhitedwarfError

if TYPE_CHECKING:
    from psutil import Process

    from whitedwarf.supervisor.asking import Supervisor

_SPARE_S = 30.0


def command(config: Annotated[Path, Parameter(allow_leading_hyphen=True)], /) -> int:
    """End a running supervisor and return when it is gone, with all its models.

    Parameters
    ----------
    config
        The config that it runs.
    """
    from whitedwarf.cli.supervise_asking import with_supervisor
    from whitedwarf.supervisor.config_file import read_config

    decided = read_config(config)
    process = with_supervisor(config, _process)
    patience_s = max([model.stop_grace_s for model in decided.managed], default=0.0) + _SPARE_S
    process.terminate()
    if not _is_gone(process, patience_s):
        raise WhitedwarfError(f"the supervisor (process {process.pid}) did not end within {patience_s:g} s")
    print("stopped")
    return 0


async def _process(supervisor: "Supervisor") -> "Process":
    """The one that it says it is; never another that has its number here, while it is in a container."""
    import psutil

    pid = supervisor.status.get("pid")
    try:
        process = psutil.Process(pid if isinstance(pid, int) else -1)
        is_ours = any("whitedwarf" in word for word in process.cmdline())
    except (psutil.Error, ValueError) as error:
        raise WhitedwarfError(f"the supervisor says it is process {pid}, which cannot be seen from here") from error
    if not is_ours:
        raise WhitedwarfError(f"the supervisor says it is process {pid}, which is something else here; stop it there")
    return process


def _is_gone(process: "Process", patience_s: float) -> bool:
    """Whether it ends in time. One that only its parent has to hear of is gone."""
    import time

    import psutil

    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False
