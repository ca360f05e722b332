"""The agent for scripts (spec/product.md C.12): prompts on standard input, each ended by a pause; two lines on stderr
say when the next one may come.

Promises: stdout has what the model and its tools say, and nothing else; whatever was sent before the end of input is
done before the end. The two lines are those of the original, which scripts know.
"""

import os
import select
import sys
import time

from whitedwarf.agent.approval import NobodyToAsk
from whitedwarf.cli.agent_display import AgentDisplay
from whitedwarf.cli.agent_parts import Parts, Seat
from whitedwarf.cli.agent_turn import DONE, FAILED, INTERRUPTED
from whitedwarf.cli.screen import shown_on

WAITING, QUEUED = "+DWARFSTAR_WAITING", "+DWARFSTAR_QUEUED"
QUIET_S = 0.2
_LOOK_S = 0.05  # how often a busy agent is looked at
_PIECE = 1 << 16


def run_lines(parts: Parts) -> int:
    """Until the end of input; the exit code is 1 when a turn failed."""
    display = AgentDisplay(sys.stdout, sys.stderr)
    seat = parts.seat(display.listen, NobodyToAsk())
    display.broken = seat.agent.interrupt
    told = parts.resume(seat)
    if told:
        display.note(told)
    try:
        leaves = _Lines(seat, display, sys.stdin.fileno()).run()
    finally:
        seat.agent.close()
    if display.error is not None:
        raise display.error
    if leaves:
        return leaves
    return FAILED if display.has_failed else DONE


class _Lines:
    """One script's side."""

    def __init__(self, seat: Seat, display: AgentDisplay, descriptor: int) -> None:
        self._agent, self._commands = seat.agent, seat.commands
        self._display = display
        self._descriptor = descriptor
        self._held = bytearray()
        self._came_s = 0.0
        self._is_told = False  # that we wait
        self._leaves = False

    def run(self) -> int:
        """0, or 130 when Ctrl+C came while nothing was done."""
        while self._display.error is None and not self._leaves:
            try:
                if not self._step():
                    self._agent.wait_idle()
                    return DONE
            except KeyboardInterrupt:
                if not self._agent.is_busy:
                    return INTERRUPTED
                self._agent.interrupt()
        return DONE

    def _step(self) -> bool:
        """Look at what came; False at the end of input."""
        is_busy = self._agent.is_busy
        if not is_busy and not self._held and not self._is_told:
            self._tell(WAITING)
            self._is_told = True
        if self._held and time.monotonic() - self._came_s >= QUIET_S:
            self._send()
            return True
        patience_s = QUIET_S if self._held else _LOOK_S if is_busy else None
        if not select.select([self._descriptor], [], [], patience_s)[0]:
            return True
        data = os.read(self._descriptor, _PIECE)
        self._held += data
        self._came_s = time.monotonic()
        if not data:
            self._send()
        return bool(data)

    def _send(self) -> None:
        text = self._held.decode("utf-8", "replace").strip("\r\n")
        self._held.clear()
        if not text.strip():
            return
        self._is_told = False
        if text.startswith("/") and "\n" not in text:
            self._obey(text)
            return
        if self._agent.is_busy:
            self._tell(QUEUED)
        self._agent.submit(text)

    def _obey(self, line: str) -> None:
        outcome = self._commands.obey(line)
        if outcome.text:
            self._tell(outcome.text)
        self._leaves = outcome.leaves

    def _tell(self, text: str) -> None:
        print(shown_on(sys.stderr, text), file=sys.stderr, flush=True)
