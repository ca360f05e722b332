"""The agent line by line: for terminals without a full screen, and for pipes. Promises: Ctrl+C ends what is done, a
second one leaves; the end of input leaves, too."""

import sys

from whitedwarf.agent.approval import NobodyToAsk
from whitedwarf.cli.agent_display import AgentDisplay
from whitedwarf.cli.agent_parts import HISTORY_NAME, Parts, Seat
from whitedwarf.cli.agent_questions import Questions, confirm
from whitedwarf.cli.agent_turn import DONE, FAILED
from whitedwarf.cli.line_editor import is_interactive, read_lines

PROMPT = "agent> "
_LOOK_S = 0.05  # how often a busy agent is looked at


def run_plain(parts: Parts, text: str | None) -> int:
    """Until /quit or the end of input; without a person, 1 when a turn failed."""
    display = AgentDisplay(sys.stdout, sys.stderr)
    questions = Questions()
    seat = (
        parts.seat(display.listen, questions, confirm)
        if is_interactive()
        else parts.seat(display.listen, NobodyToAsk())
    )
    display.broken = seat.agent.interrupt
    try:
        _Talk(seat, display, questions).run(parts.resume(seat), text)
    finally:
        questions.close()
        seat.agent.close()
    if display.error is not None:
        raise display.error
    return FAILED if display.has_failed and not is_interactive() else DONE


class _Talk:
    """One person, or one pipe, and the agent by turns."""

    def __init__(self, seat: Seat, display: AgentDisplay, questions: Questions) -> None:
        self._agent, self._commands = seat.agent, seat.commands
        self._display = display
        self._questions = questions

    def run(self, told: str, first: str | None) -> None:
        """Say hello, then answer line after line."""
        if told:
            self._display.note(told)
        if is_interactive():
            self._display.note("/help lists the commands; Ctrl+C stops an answer, Ctrl+D leaves")
        if first is not None:
            self._say(first)
        for line in read_lines(PROMPT, HISTORY_NAME):
            if self._display.error is not None or self._obey(line):
                return
        self._obey("/quit")

    def _obey(self, line: str) -> bool:
        """Whether that was the last line."""
        if not line.strip():
            return False
        if not line.lstrip().startswith("/"):
            self._say(line)
            return False
        try:
            outcome = self._commands.obey(line.strip())
        except KeyboardInterrupt:
            self._agent.interrupt()
            self._follow()
            return False
        if outcome.text:
            self._display.note(outcome.text, outcome.is_error)
        self._follow()
        return outcome.leaves

    def _say(self, text: str) -> None:
        self._agent.submit(text)
        self._follow()

    def _follow(self) -> None:
        """Until the agent is idle: its questions are answered here."""
        was_interrupted = False
        while True:
            try:
                if self._agent.wait_idle(_LOOK_S):
                    return
                self._questions.answer_next()
            except KeyboardInterrupt:
                if was_interrupted:
                    raise
                was_interrupted = True
                self._agent.interrupt()
