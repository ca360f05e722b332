"""Work for a client, for as long as the client is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from whitedwarf.supervisor.asgi import Receive, until_left

Work = Coroutine[Any, Any, None]


async def while_there(receive: Receive, work: Work, *beside: Work) -> None:
    """Do the work, and what is beside it until the work's end; everything is cancelled when the client leaves.

    The request's body has to be read before. Returns when all of it has ended.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        leaving = group.create_task(until_left(receive))
        others = [leaving, *map(group.create_task, beside)]
        leaving.add_done_callback(lambda _: task.cancel())
        task.add_done_callback(lambda _: [other.cancel() for other in others])
