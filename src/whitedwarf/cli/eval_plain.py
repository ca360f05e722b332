"""An exam as plain text: each answer as it comes, its verdict, and where the exam is.

Promises: colours on terminals only, and no other escapes, whatever a model says. Of several answers at a time each is
shown whole, when it has ended.
"""

import sys
from typing import TextIO

from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.screen import PLAIN, Screen, wants_colour
from whitedwarf.cli.screen import Piece as ShownPiece
from whitedwarf.conversation.visible import visible
from whitedwarf.evals.answer import Piece
from whitedwarf.evals.exam import Phase, Seat, Watcher

_GREEN, _RED, _YELLOW, _BOLD = "\033[32m", "\033[31m", "\033[33m", "\033[1m"
_GIVEN_CHARACTERS = 40
_COLOURS = {Phase.PASSED: _GREEN, Phase.FAILED: _RED, Phase.ERROR: _RED}


class PlainDisplay(Watcher):
    """`is_streaming`: one case at a time, shown while it comes."""

    def __init__(self, num_cases: int, *, is_streaming: bool, stream: TextIO | None = None) -> None:
        self._num_cases = num_cases
        self._is_streaming = is_streaming
        self._stream = stream or sys.stdout
        self._has_colour = wants_colour(self._stream)
        self._screen = Screen(self._stream)
        self._progress = ProgressLine()
        self._attempt = 1
        self._num_running = self._num_ended = 0

    def on_begin(self, seat: Seat) -> None:
        """The heading of a case."""
        if self._is_streaming:
            self._head(seat)
        else:
            self._num_running += 1
            self._tell_progress()

    def on_news(self, seat: Seat, piece: Piece | None) -> None:
        """More text, or how much of the prompt has been read."""
        if not self._is_streaming:
            return
        if seat.answer.num_attempts > self._attempt:
            self._attempt = seat.answer.num_attempts
            self._end_text()
            self._line(f"once more: {seat.answer.trouble}", _YELLOW)
        if piece is not None:
            self._progress.clear()
            self._show(piece)
        elif self._progress.is_terminal and not seat.answer.has_begun:
            self._progress.show(f"reading {seat.answer.read_tokens}/{seat.answer.prompt_tokens} tokens")

    def on_end(self, seat: Seat) -> None:
        """The verdict."""
        self._progress.clear()
        if not self._is_streaming:
            self._head(seat)
            for piece in seat.answer.pieces:
                self._show(piece)
        self._end_text()
        self._line(_verdict(seat), _COLOURS.get(seat.phase, _YELLOW))
        self._stream.write("\n")
        self._stream.flush()
        if not self._is_streaming:
            self._num_running, self._num_ended = self._num_running - 1, self._num_ended + 1
            self._tell_progress()

    def finish(self) -> None:
        """Nothing more comes: the report may follow."""
        self._progress.clear()

    def _tell_progress(self) -> None:
        if self._progress.is_terminal:
            self._progress.show(f"{self._num_ended}/{self._num_cases} ended, {self._num_running} running")

    def _head(self, seat: Seat) -> None:
        self._attempt = 1
        self._line(f"--- {seat.number}/{self._num_cases} {seat.case.name}: {seat.case.title}", _BOLD)

    def _show(self, piece: Piece) -> None:
        self._screen.show(ShownPiece(visible(piece.text), piece.is_thinking))

    def _end_text(self) -> None:
        self._screen.finish()
        self._screen = Screen(self._stream)

    def _line(self, text: str, colour: str) -> None:
        text = visible(text)
        self._stream.write(f"{colour}{text}{PLAIN}\n" if self._has_colour else f"{text}\n")
        self._stream.flush()


def _verdict(seat: Seat) -> str:
    ending, answer = seat.ending, seat.answer
    assert ending is not None
    figures = f"{answer.prompt_tokens} + {answer.generated_tokens} tokens, {ending.elapsed_s:.1f} s"
    if ending.error:
        return f"{ending.status}: {ending.error}"
    if ending.status.is_graded:
        given = ending.given[:_GIVEN_CHARACTERS] or "no answer"
        return f"{ending.status}: {given}, right is {seat.case.answer}; {figures}"
    return f"{ending.status}; {figures}"
