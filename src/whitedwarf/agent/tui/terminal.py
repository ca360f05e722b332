"""What the screen has to know of terminals and processes beside textual: signals, the true size, a key."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

TERMINATED = 128 + signal.SIGTERM
_ALT_ENTER = ("\x1b\r", "\x1b\n")
_ENDING = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


def know_alt_enter() -> None:
    """Terminals without the newer key protocols send Esc and Return, which textual takes for Return alone."""
    known = cast(dict[str, object], ANSI_SEQUENCES_KEYS)
    for sequence in _ALT_ENTER:
        known.setdefault(sequence, (Keys.ControlJ,))


def ending_signals() -> dict[signal.Signals, int]:
    """What ends the screen, with the exit status."""
    return {number: 128 + number for number in _ENDING}


@contextlib.contextmanager
def kept_handlers() -> Iterator[None]:
    """An event loop that is closed sets signals back to the system's way: we put back what was there."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # no main thread
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def asked_size() -> Iterator[None]:
    """The terminal knows its size; exported COLUMNS and LINES would be taken instead, and stay as they are."""
    kept = {name: os.environ.pop(name) for name in ("COLUMNS", "LINES") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
