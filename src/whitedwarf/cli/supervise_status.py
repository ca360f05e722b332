"""`whitedwarf supervise status`: which models are loaded, and for how long."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def command(config: Annotated[Path, Parameter(allow_leading_hyphen=True)], /, *, json: bool = False) -> int:
    """Say how the models of a running supervisor stand. Wakes none of them.

    Parameters
    ----------
    config
        The config that it runs.
    json
        Everything, for scripts.
    """
    from whitedwarf.cli.supervise_asking import print_json, with_supervisor
    from whitedwarf.cli.supervise_table import status_lines
    from whitedwarf.supervisor.asking import Supervisor

    async def status(supervisor: Supervisor) -> dict[str, object]:
        return supervisor.status

    told = with_supervisor(config, status)
    if json:
        print_json(told)
    else:
        print("\n".join(status_lines(told)))
    return 0
