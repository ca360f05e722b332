"""Keys that terminals send and textual does not know."""

from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

_ALT_ENTER = ("\x1b\r", "\x1b\n")


def know_alt_enter() -> None:
    """Terminals without the newer key protocols send Esc and Return, which textual takes for Return alone."""
    known = cast(dict[str, object], ANSI_SEQUENCES_KEYS)
    for sequence in _ALT_ENTER:
        known.setdefault(sequence, (Keys.ControlJ,))
