"""One command that runs beside the conversation: started in a group of its own, read, watched and ended.

Promises: it reads nothing from us and gets its text as one argument, so no part of it is interpreted by us. It is done
when its shell has ended, whatever the shell has left running; that goes on being read, and can be ended like the rest.
One thread for each.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from whitedwarf.agent.tools.job_output import JobOutput
from whitedwarf.agent.tools.process_tree import is_group_alive, signal_group

GRACE_S = 1.0
LOOK_S = 0.1
_GIVE_UP_S = 5.0  # what was killed and stays is the kernel's
_READ_BYTES = 1 << 16
_READS_AT_ONCE = 16


class Job:
    """See the module. OSError or ValueError where it cannot be started."""

    def __init__(
        self,
        number: int,
        command: str,
        folder: Path,
        timeout_s: float,
        output: JobOutput,
        environment: Mapping[str, str],
    ) -> None:
        self.number = number
        self.command = command
        self.timeout_s = timeout_s
        self.output = output
        self.is_timed_out = False
        self.is_stopped = False
        self.finished = threading.Event()
        self._began_s = time.monotonic()
        self._ended_s: float | None = None
        self._has_group = True  # once it was seen empty, its number may be somebody else's
        self._is_closing = False
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        self._thread = threading.Thread(target=self._watch, name=f"job-{number}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the shell, and of its group."""
        return self._process.pid

    @property
    def elapsed_s(self) -> float:
        """How long it runs, or ran."""
        return (self._ended_s or time.monotonic()) - self._began_s

    @property
    def exit_status(self) -> int | None:
        """As a shell tells it: 128 + the signal that ended it. None while it runs."""
        code = self._process.returncode if self.finished.is_set() else None
        return 128 - code if code is not None and code < 0 else code

    @property
    def has_left_processes(self) -> bool:
        """Whether the shell has ended and something that it started has not."""
        return self.finished.is_set() and self._is_group_alive()

    def wait(self, seconds: float, look: Callable[[], bool]) -> None:
        """Until it is done, or for so long, or until `look`, which is asked ten times a second, says to stop."""
        end = time.monotonic() + seconds
        while True:
            is_done = self.finished.wait(max(0.0, min(LOOK_S, end - time.monotonic())))
            if look() or is_done or time.monotonic() >= end:
                return

    def stop(self) -> None:
        """End it and all of its group, which gets a moment for it; returns when they are gone."""
        self.is_stopped = not self.finished.is_set()
        self._signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_S
        while time.monotonic() < end and self._is_group_alive():
            time.sleep(LOOK_S / 4)
        self._signal(signal.SIGKILL)
        self.finished.wait(_GIVE_UP_S)

    def kill(self) -> None:
        """End it and all of its group at once, and stop reading; returns when its thread is gone."""
        self._is_closing = True
        self._signal(signal.SIGKILL)
        self._thread.join(_GIVE_UP_S)

    def _is_group_alive(self) -> bool:
        if self._has_group:
            self._has_group = not self.finished.is_set() or is_group_alive(self.pid)
        return self._has_group

    def _signal(self, number: int) -> None:
        if self._is_group_alive():
            signal_group(self.pid, number)

    # on the job's thread

    def _watch(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe, selectors.DefaultSelector() as selector:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
            is_open = True
            while not self._is_closing and (is_open or not self.finished.is_set()):
                is_open = is_open and self._read(selector, pipe.fileno(), LOOK_S)
                if self._has_exited(0.0 if is_open else LOOK_S):
                    is_open = is_open and self._read(selector, pipe.fileno(), 0.0)  # its last words
                    self._end()
        self._has_exited(_GIVE_UP_S)
        self._end()
        self.output.close()

    def _read(self, selector: selectors.BaseSelector, pipe: int, wait_s: float) -> bool:
        """What is there or comes within a moment; whether more may come."""
        if not selector.select(wait_s):
            return True
        for _ in range(_READS_AT_ONCE):
            try:
                data = os.read(pipe, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.output.add(data)
        return True

    def _has_exited(self, wait_s: float) -> bool:
        """Also where its time is over, in a moment."""
        if not (self.finished.is_set() or self.is_timed_out) and self.elapsed_s > self.timeout_s:
            self.is_timed_out = True
            signal_group(self.pid, signal.SIGKILL)
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end(self) -> None:
        if self._ended_s is None:
            self._ended_s = time.monotonic()
        self.finished.set()
