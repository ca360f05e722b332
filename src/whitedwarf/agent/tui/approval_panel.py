"""The question whether a call may run, below the story; the thread that asks waits.

Promises: every question gets an answer, also when the screen goes away; a key that was meant for the editor is none.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static

from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.tui.diff import diff_rows
from whitedwarf.agent.tui.shown import TAB, one_line, shown

TYPING_PAUSE_S = 0.5  # a key so soon after another one is part of a word
MOST_DETAIL_ROWS = 12
_OTHER_ROWS = 10  # of the screen: the editor, the state, the title of the question, its keys
_NARROW = 60  # columns
LONGEST_DETAIL = 20_000  # characters
_CONSENTS = {"y": Consent.ONCE, "a": Consent.SESSION, "n": Consent.NO, "escape": Consent.NO}
_CONFIRMATIONS = {"y": Consent.ONCE, "n": Consent.NO, "escape": Consent.NO}
_SCROLL_KEYS = {"up": -1, "down": 1}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and where its answer goes."""

    question: Question
    is_confirmation: bool = False
    answer: "Future[Consent]" = field(default_factory=Future)

    def reply(self, consent: Consent) -> None:
        """The first reply counts."""
        if not self.answer.done():
            self.answer.set_result(consent)


class Questions:
    """From any thread: ask and wait. `tell` is called when there is something to show."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._waiting: list[Asked] = []
        self._is_closed = False

    def wait_for(self, asked: Asked) -> Consent:
        """The answer; NO when nobody can be asked any more."""
        with self._lock:
            if self._is_closed:
                return Consent.NO
            self._waiting.append(asked)
        self._tell()
        try:
            return asked.answer.result()
        finally:
            with self._lock:
                self._waiting.remove(asked)
            self._tell()

    @property
    def first(self) -> Asked | None:
        """The one to be shown."""
        with self._lock:
            return next((asked for asked in self._waiting if not asked.answer.done()), None)

    def refuse_all(self) -> None:
        """The turn is interrupted."""
        with self._lock:
            waiting = list(self._waiting)
        for asked in waiting:
            asked.reply(Consent.NO)

    def close(self) -> None:
        """The screen goes away."""
        with self._lock:
            self._is_closed = True
        self.refuse_all()


class ApprovalPanel(Vertical, can_focus=True):
    """Shows one question at a time; hidden without one."""

    DEFAULT_CSS = """
    ApprovalPanel { height: auto; display: none; padding: 0 1; border-top: heavy $warning; }
    ApprovalPanel.-plain { border-top: none; }
    ApprovalPanel VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    ApprovalPanel Static { height: auto; }
    #asked, #risk { max-height: 2; }
    """

    class Replied(Message):
        """The question has an answer."""

        def __init__(self, asked: Asked, consent: Consent) -> None:
            super().__init__()
            self.asked = asked
            self.consent = consent

    def __init__(self, is_plain: bool = False) -> None:
        super().__init__(id="approval", classes="-plain" if is_plain else "")
        self._asked: Asked | None = None
        self._last_key_s = 0.0

    def compose(self) -> ComposeResult:
        """What, the details, and the keys."""
        yield Static(id="asked", markup=False)
        yield Static(id="risk", markup=False)
        with VerticalScroll(id="detail", can_focus=False):
            yield Static(id="details", markup=False)
        yield Static(id="answers", markup=False)

    def typed(self) -> None:
        """A key was pressed elsewhere."""
        self._last_key_s = time.monotonic()

    def show(self, asked: Asked | None) -> None:
        """Another question, or none."""
        if asked is self._asked:
            return
        self._asked = asked
        self.display = asked is not None
        if asked is None:
            return
        question = asked.question
        self.query_one("#asked", Static).update(_title(asked))
        self.query_one("#risk", Static).update(Content.assemble(("Unusual: ", "bold $error"), one_line(question.risk)))
        self.query_one("#risk").display = bool(question.risk)
        self.query_one("#details", Static).update(_detail(question))
        self.query_one("#detail").display = bool(question.detail)
        self.query_one("#detail", VerticalScroll).scroll_home(animate=False)
        self.fit(self.app.size)
        self.focus()

    def fit(self, size: Size) -> None:
        """So many details that the keys stay in sight."""
        if self._asked is None:
            return
        rows = size.height - _OTHER_ROWS - (2 if self._asked.question.risk else 0)
        self.query_one("#detail").styles.max_height = max(1, min(MOST_DETAIL_ROWS, rows))
        self.query_one("#answers", Static).update(_answers(self._asked, size.width < _NARROW))

    def scroll_page(self, step: int) -> None:
        """More of the details."""
        detail = self.query_one("#detail", VerticalScroll)
        detail.scroll_relative(y=step * max(1, detail.size.height - 1), animate=False)

    async def _on_key(self, event: events.Key) -> None:
        since_s = time.monotonic() - self._last_key_s
        self.typed()
        if event.key in _SCROLL_KEYS:
            self.query_one("#detail", VerticalScroll).scroll_relative(y=_SCROLL_KEYS[event.key], animate=False)
        elif self._asked is not None and event.key.lower() in self._choices():
            if since_s < TYPING_PAUSE_S and event.key != "escape":
                self.app.bell()
            else:
                self.post_message(self.Replied(self._asked, self._choices()[event.key.lower()]))
        else:
            return
        event.stop()
        event.prevent_default()

    def _choices(self) -> Mapping[str, Consent]:
        return _CONFIRMATIONS if self._asked is not None and self._asked.is_confirmation else _CONSENTS


def _title(asked: Asked) -> Content:
    question = asked.question
    if asked.is_confirmation:
        return Content.styled(one_line(question.summary), "bold")
    what = f"{one_line(question.tool)} ({question.effect.value})"
    told = "?" if question.is_summary_in_detail else f": {one_line(question.summary)}"
    return Content.assemble(("Allow ", "bold $warning"), (what, "bold"), told)


def _detail(question: Question) -> Content:
    text = question.detail[:LONGEST_DETAIL]
    rows = diff_rows(text) if "\n@@ " in f"\n{text}" else [Content(shown(text).expandtabs(TAB))]
    if len(question.detail) > LONGEST_DETAIL:
        rows.append(Content.styled(f"… {len(question.detail) - LONGEST_DETAIL} characters more", "dim"))
    return Content("\n").join(rows)


def _answers(asked: Asked, is_narrow: bool) -> Content:
    always = "always" if is_narrow else f"always {one_line(asked.question.tool)} in this session"
    keys = (
        [("y", "once"), ("a", always), ("n", "no")]
        if is_narrow
        else [("y", "yes, once"), ("a", always), ("n", "no (Esc)")]
    )
    if asked.is_confirmation:
        keys = [("y", "yes"), ("n", "no (Esc)")]
    return Content("   ").join(Content.assemble((key, "bold reverse"), f" {word}") for key, word in keys)
