"""What a person sees of an answer: thoughts in grey, the answer plain, and a newline wherever one is due.

Promises: on a terminal colours are switched off again whatever happens, and nothing that a model says is obeyed;
elsewhere not one escape byte is added, and what it says goes out as it is.
"""

import os
from dataclasses import dataclass
from typing import TextIO

from whitedwarf.conversation.visible import visible

GREY, PLAIN = "\033[90m", "\033[0m"


@dataclass(frozen=True, slots=True)
class Piece:
    """A non-empty piece of text and whether it is a thought."""

    text: str
    is_thinking: bool


def wants_colour(stream: TextIO) -> bool:
    """A terminal that can, and a user who did not say no (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shown_on(stream: TextIO, text: str) -> str:
    """As it may go to this stream: a terminal obeys nothing of it, elsewhere it is as it is."""
    return visible(text) if stream.isatty() else text


class Screen:
    """One answer, piece by piece."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_colour = wants_colour(stream)
        self._is_terminal = stream.isatty()
        self._was_thinking = False
        self._at_line_start = True

    def show(self, piece: Piece) -> None:
        """Write a piece at once."""
        if self._was_thinking and not piece.is_thinking:
            self._end_line()  # the end of thinking
        text = visible(piece.text) if self._is_terminal else piece.text
        self._stream.write(f"{GREY}{text}{PLAIN}" if piece.is_thinking and self._has_colour else text)
        self._stream.flush()
        self._was_thinking = piece.is_thinking
        self._at_line_start = piece.text.endswith("\n")

    def finish(self) -> None:
        """Make sure the answer ends with a newline."""
        self._end_line()
        self._stream.flush()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._stream.write("\n")
            self._at_line_start = True
