"""A coroutine until Ctrl+C or SIGTERM: the first asks it to end, a second one ends the process."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from whitedwarf.cli.loading import note

INTERRUPTED = 130


def run_until_signal(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """0 when it ended by itself or after SIGTERM, 130 after Ctrl+C."""
    return asyncio.run(_run(work))


async def _run(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    stop, came = asyncio.Event(), list[int]()
    loop = asyncio.get_running_loop()

    def hear(number: int) -> None:
        if came:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        came.append(number)
        note("ending; once more ends at once")
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, hear, number)
    try:
        await work(stop)
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    return INTERRUPTED if came[:1] == [signal.SIGINT] else 0
