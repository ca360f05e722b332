"""What the commands that ask a running supervisor share."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from whitedwarf.supervisor.asking import Supervisor

Told = TypeVar("Told")


def with_supervisor(config: Path, what: "Callable[[Supervisor], Awaitable[Told]]") -> Told:
    """Find the supervisor of this config and do this with it."""
    from whitedwarf.supervisor.asking import Supervisor
    from whitedwarf.supervisor.config_file import read_config

    decided = read_config(config)

    async def do() -> Told:
        return await what(await Supervisor.find(decided))

    return asyncio.run(do())


def print_json(value: object) -> None:
    """For scripts."""
    import json

    from whitedwarf.cli.utf8_output import speak_utf8

    speak_utf8()
    print(json.dumps(value, indent=2, ensure_ascii=False))
