"""What the supervisor says, on standard error, which may be a stopped terminal or a pipe that nobody reads.

Promises: saying something never waits; what nobody takes is lost and counted, and nothing else goes wrong by it.
"""

import logging
import os
import select

_AT_ONCE_BYTES = 512
"""What a pipe takes without waiting where it takes anything: POSIX' least PIPE_BUF."""


class LogStream(logging.Handler):
    """Writes lines to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._num_lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, if that can be done at once."""
        try:
            lost = f"({self._num_lost} entries before this one were lost: nobody read)\n" if self._num_lost else ""
            if self._write(f"{lost}{self.format(record)}\n".encode("utf-8", "backslashreplace")):
                self._num_lost = 0
            else:
                self._num_lost += 1
        except Exception:
            self.handleError(record)

    def _write(self, data: bytes) -> bool:
        """Whether any of it was taken."""
        for start in range(0, len(data), _AT_ONCE_BYTES):
            if not self._takes_more():
                return start > 0
            os.write(self._descriptor, data[start : start + _AT_ONCE_BYTES])
        return True

    def _takes_more(self) -> bool:
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))
