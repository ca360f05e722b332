"""`whitedwarf supervise logs`: what a model's process says."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number


def command(
    config: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    model: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    lines: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 200,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False,
) -> int:
    """Print the last lines of a model's log, of a running supervisor.

    Parameters
    ----------
    config
        The config that it runs.
    model
        Name or alias of the model. Default: the first one.
    lines
        How many of the last lines.
    follow
        Go on with new lines until Ctrl+C.
    """
    from whitedwarf.cli.supervise_asking import with_supervisor
    from whitedwarf.supervisor.asking import Supervisor

    parameters = {"lines": str(lines)} | ({} if model is None else {"model": model})

    async def logs(supervisor: Supervisor) -> None:
        is_empty = True
        async for piece in supervisor.read("logs", parameters | ({"follow": "1"} if follow else {})):
            sys.stdout.write(piece)
            sys.stdout.flush()
            is_empty = False
        if is_empty and not follow:
            print("whitedwarf: it has said nothing since this supervisor began", file=sys.stderr)

    with_supervisor(config, logs)
    return 0
