"""`whitedwarf supervise start`: load a model before the first request."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def command(
    config: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    model: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    json: bool = False,
) -> int:
    """Have a running supervisor start a model and return when it can answer. A start that failed is tried again.

    Parameters
    ----------
    config
        The config that it runs.
    model
        Name or alias of the model.
    json
        For scripts.
    """
    from whitedwarf.cli.supervise_asking import print_json, with_supervisor
    from whitedwarf.supervisor.asking import Supervisor

    async def start(supervisor: Supervisor) -> dict[str, object]:
        return await supervisor.order("start", {"model": model})

    told = with_supervisor(config, start)
    if json:
        print_json(told)
    else:
        print(f"{told.get('started', model)} is loaded")
    return 0
