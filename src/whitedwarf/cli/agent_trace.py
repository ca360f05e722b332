"""`--trace`: everything that happens, as JSON lines added to a file that is private to its owner.

Promises: what has the shape of a secret is masked; text comes in whole pieces, so that no mask misses a secret that was
cut; a disk that takes no more ends the trace, not the agent.
"""

import errno
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whitedwarf.agent.events import Compacting, Drawn, Event, Listener, ParameterText, Reading, ToolOutput
from whitedwarf.agent.secrets import Secrets
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta
from whitedwarf.errors import UsageError

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_MOST_OPEN = 1 << 20  # characters
_UNTOLD = (Drawn, Compacting, ArgumentsDelta, ParameterText)  # told again, whole, by others


class AgentTrace:
    """One open file."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        secrets: Secrets,
        notice: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._notice = notice
        self._secrets = secrets
        self._descriptor = descriptor
        self._clock = clock
        self._open: list[str] = []  # pieces of a text
        self._open_kind = ""
        self._open_characters = 0

    @classmethod
    def open(cls, path: Path, secrets: Secrets, notice: Callable[[str], None]) -> "AgentTrace":
        """UsageError where it is no file that can be written; `notice` is told when that ends."""
        try:
            descriptor = _opened(path)
        except OSError as error:
            raise UsageError(f"--trace {path}: expected a file that can be written; {error.strerror}") from error
        except ValueError as error:  # a NUL in the name
            raise UsageError(f"--trace {str(path)!r}: expected a file that can be written; {error}") from error
        trace = cls(path, descriptor, secrets, notice)
        trace.write({"event": "Began", "pid": os.getpid(), "folder": str(Path.cwd())})
        return trace

    def beside(self, listen: Listener) -> Listener:
        """A listener that traces what it passes on."""

        def hear(event: Event) -> None:
            self.hear(event)
            listen(event)

        return hear

    def hear(self, event: Event) -> None:
        """One event."""
        kind = type(event).__name__
        if isinstance(event, ReasoningDelta | TextDelta | ToolOutput):
            if kind != self._open_kind:
                self._flush()
            self._take(kind, event.text)
            return
        if isinstance(event, _UNTOLD) or (isinstance(event, Reading) and event.done < event.total):
            return
        self._flush()
        self.write({"event": kind, **asdict(event)})

    def write(self, record: dict[str, Any]) -> None:
        """One line."""
        if self._descriptor < 0:
            return
        stamped = {"time": round(self._clock(), 3), **record}
        line = json.dumps(self._masked(stamped), ensure_ascii=False, default=str)
        try:
            _write_all(self._descriptor, line.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            self._end()
            self._notice(f"--trace {self._path}: {error.strerror}; the trace ends here")

    def close(self) -> None:
        """No more; again does nothing."""
        self._flush()
        self._end()

    def _masked(self, value: Any) -> Any:
        """The same, with every text in it masked."""
        match value:
            case str():
                return self._secrets.mask(value)
            case dict():
                return {key: self._masked(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self._masked(inner) for inner in value]
        return value

    def _end(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, kind: str, text: str) -> None:
        """More of a text; of a command that prints without end, whole lines are written now and then."""
        self._open_kind = kind
        self._open.append(text)
        self._open_characters += len(text)
        if self._open_characters > _MOST_OPEN and "\n" in text:
            whole, _, rest = "".join(self._open).rpartition("\n")
            self._open = [whole + "\n"]
            self._flush()
            self._take(kind, rest)

    def _flush(self) -> None:
        """The text that is open is over."""
        self._open_characters = 0
        pieces, self._open = self._open, []
        kind, self._open_kind = self._open_kind, ""
        if pieces:
            self.write({"event": kind.removesuffix("Delta"), "text": "".join(pieces)})


def _opened(path: Path) -> int:
    """No device and no pipe: they could hold up the agent, and their permissions are not ours to change."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        os.fchmod(descriptor, 0o600)  # one that was there may have been open to others
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class _Lines(logging.Handler):
    """Records of the log, as lines of a trace."""

    def __init__(self, trace: AgentTrace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.write({"event": "Log", "level": record.levelname, "text": self.format(record)})


@contextmanager
def logged_to(trace: AgentTrace | None) -> Iterator[None]:
    """While inside, what our parts log, tracebacks too, goes to the trace, and to no screen."""
    logger = logging.getLogger("whitedwarf")
    handler = logging.NullHandler() if trace is None else _Lines(trace)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
