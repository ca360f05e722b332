"""Questions of the agent's thread, answered by a person on the main thread, line by line."""

import queue
import threading
from dataclasses import dataclass, field

from whitedwarf.agent.approval import Consent, Question
from whitedwarf.cli.line_editor import read_answer
from whitedwarf.conversation.visible import visible

_CONSENTS = {"y": Consent.ONCE, "yes": Consent.ONCE, "a": Consent.SESSION, "always": Consent.SESSION}
_HOW = "Allow it? y = once, a = this tool from now on, n = no: "


@dataclass(slots=True)
class _Open:
    """A question, and its answer once `is_answered` is set."""

    question: Question
    answer: Consent = Consent.NO
    is_answered: threading.Event = field(default_factory=threading.Event)


class Questions:
    """An approver; somebody has to call `answer_next` again and again."""

    def __init__(self) -> None:
        self._open: queue.SimpleQueue[_Open] = queue.SimpleQueue()
        self._is_closed = False

    def ask(self, question: Question) -> Consent:
        """As Approver: waits for the main thread."""
        open = _Open(question)
        self._open.put(open)
        while not open.is_answered.wait(0.1):
            if self._is_closed:
                return Consent.NO
        return open.answer

    def answer_next(self) -> None:
        """Put the next question to the user, if there is one; a KeyboardInterrupt is a no, and goes on."""
        try:
            open = self._open.get_nowait()
        except queue.Empty:
            return
        try:
            open.answer = _consent(open.question)
        finally:
            open.is_answered.set()

    def close(self) -> None:
        """Everything is refused from now on."""
        self._is_closed = True
        while not self._open.empty():
            self._open.get_nowait().is_answered.set()


def question_text(question: Question) -> str:
    """What is to be allowed, as lines."""
    risk = f"Mind: {question.risk}" if question.risk else ""
    summary = "" if question.is_summary_in_detail else question.summary
    return "\n".join(filter(None, (summary, question.detail, risk)))


def confirm(text: str) -> bool:
    """Yes or no, asked on the thread that calls."""
    return read_answer(f"{visible(text)} (y/n) ").strip().lower() in ("y", "yes")


def _consent(question: Question) -> Consent:
    print(visible(question_text(question)), flush=True)
    return _CONSENTS.get(read_answer(_HOW).strip().lower(), Consent.NO)
