"""`whitedwarf supervise unload`: give a model's memory back now."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def command(
    config: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    model: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    drain: bool = False,
    json: bool = False,
) -> int:
    """Stop loaded models and return when their processes are gone. The next request starts them again.

    Parameters
    ----------
    config
        The config that a running supervisor has.
    model
        Name or alias of one model. Default: all.
    drain
        Let running answers end first. Default: they are cut off.
    json
        The names of those that were stopped, for scripts.
    """
    from whitedwarf.cli.supervise_asking import print_json, with_supervisor
    from whitedwarf.supervisor.asking import Supervisor

    parameters = ({} if model is None else {"model": model}) | ({"drain": "1"} if drain else {})

    async def unload(supervisor: Supervisor) -> dict[str, object]:
        return await supervisor.order("unload", parameters)

    told = with_supervisor(config, unload)
    if json:
        print_json(told)
    else:
        stopped = told.get("unloaded")
        print(
            f"unloaded {', '.join(map(str, stopped))}"
            if isinstance(stopped, list) and stopped
            else "nothing was loaded"
        )
    return 0
