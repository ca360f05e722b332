"""Slash commands on a thread of their own, in their order, so that one that waits keeps nobody from typing."""

import queue
import threading
from collections.abc import Callable

from whitedwarf.agent.tui.cockpit import Commands, Obeyed
from whitedwarf.errors import WhitedwarfError

Done = Callable[[str, Obeyed], object]


class Commander:
    """`done` is called on the commands' thread with every line and what came of it."""

    def __init__(self, commands: Commands, done: Done) -> None:
        self._commands = commands
        self._done = done
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="slash commands", daemon=True)
        self._thread.start()

    def obey(self, line: str) -> None:
        """Later, after those before it."""
        self._lines.put(line)

    def close(self, timeout_s: float = 5) -> None:
        """No more lines; what is being obeyed may end."""
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._done(line, self._obey(line))

    def _obey(self, line: str) -> Obeyed:
        try:
            return self._commands.obey(line)
        except WhitedwarfError as error:
            return Obeyed(str(error), is_error=True)
        except Exception as error:  # a thread that dies would leave every later command unanswered
            return Obeyed(f"{line.split()[0]} broke down: {type(error).__name__}: {error}", is_error=True)
