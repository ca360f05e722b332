"""The split screen: all cases on the left, the selected one's answer on the right, as it comes.

Promises: the terminal is as it was when `show` ends, also by Ctrl+C and SIGTERM; the exam has ended then, with an end
for every case. What is shown is repainted ten times a second, however fast tokens come.
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import OptionList, Static

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Piece
from whitedwarf.evals.exam import Exam, Seat, Watcher
from whitedwarf.evals.tui.pane import answer, head, list_line, question

REPAINT_S = 0.1
TERMINATED = 128 + signal.SIGTERM
_KEYS = " p pause   q quit and report   ↑ ↓ look at   Enter ask next   PgUp PgDn question   Esc follow"


def show(exam: Exam) -> None:
    """Run the exam on the screen. KeyboardInterrupt after Ctrl+C, SystemExit after SIGTERM, else what `Exam.run`
    raises; WhitedwarfError when the screen itself broke down."""
    app = ExamApp(exam)
    with _kept_handler():
        app.run(mouse=False)
    if app.failure is not None:
        raise app.failure
    if app.return_code:  # textual has told why
        raise WhitedwarfError("the screen broke down and the exam was stopped; --plain does without one")


@contextlib.contextmanager
def _kept_handler() -> Iterator[None]:
    """An event loop that is closed sets SIGTERM back to the system's way: we put back what was there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class ExamApp(App[None]):
    """`failure` is what `show` has to raise when the screen is gone."""

    CSS = """
    #head { height: 1; background: $panel; }
    #keys { height: 1; background: $panel; color: $text-muted; }
    #cases { width: 38; height: 1fr; border: none; border-right: solid $panel; padding: 0; }
    #question { height: auto; max-height: 40%; border-bottom: solid $panel; padding: 0 1; }
    #stream { height: 1fr; padding: 0 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", priority=True),
        Binding("q", "leave", priority=True),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+q", "leave", priority=True),
        Binding("escape", "follow", priority=True),
        Binding("up", "look(-1)", priority=True),
        Binding("down", "look(1)", priority=True),
        Binding("enter", "ask", priority=True),
        Binding("pageup", "read(-1)", priority=True),
        Binding("pagedown", "read(1)", priority=True),
    ]

    def __init__(self, exam: Exam) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self._exam = exam
        self._news = _News()
        self._is_following = True
        self._shown: Seat | None = None
        self._began_s = time.monotonic()
        exam.watch(self._news)

    def compose(self) -> ComposeResult:
        """Two panes between two lines."""
        yield Static(id="head")
        with Horizontal():
            yield OptionList(*[list_line(seat) for seat in self._exam.seats], id="cases", markup=False)
            with Vertical():
                with VerticalScroll(id="question", can_focus=False):
                    yield Static(id="asked")
                with VerticalScroll(id="stream", can_focus=False):
                    yield Static(id="said")
        yield Static(_KEYS, id="keys")

    def on_mount(self) -> None:
        """Begin."""
        self._cases.highlighted = 0
        self.set_interval(REPAINT_S, self._repaint)
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # no main thread, another system
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end, SystemExit(TERMINATED))
        self.run_worker(self._run_exam(), exit_on_error=False)
        self._repaint()

    def action_pause(self) -> None:
        """Hold, or go on."""
        self._exam.pause(not self._exam.is_paused)
        self._repaint()

    def action_leave(self) -> None:
        """Stop what is asked; the report follows."""
        self._exam.stop()

    def action_interrupt(self) -> None:
        """Ctrl+C."""
        self._end(KeyboardInterrupt())

    def action_look(self, step: int) -> None:
        """At another case."""
        self._is_following = False
        self._cases.highlighted = (self._selected + step) % len(self._exam.seats)
        self._repaint()

    def action_read(self, step: int) -> None:
        """More of a long question."""
        self.query_one("#question", VerticalScroll).scroll_relative(y=4 * step, animate=False)

    def action_follow(self) -> None:
        """Look at what is being asked."""
        self._is_following = True
        self._repaint()

    def action_ask(self) -> None:
        """Ask the selected case next."""
        self._exam.ask_next(self._selected + 1)
        self._is_following = True

    def on_option_list_option_highlighted(self) -> None:
        """Show the one that is looked at."""
        self._news.is_new = True

    def on_resize(self) -> None:
        """Another size has room for more or less."""
        self._news.is_new = True

    @property
    def _cases(self) -> OptionList:
        return self.query_one("#cases", OptionList)

    @property
    def _selected(self) -> int:
        return self._cases.highlighted or 0

    async def _run_exam(self) -> None:
        try:
            await self._exam.run()
        except Exception as error:  # whatever it is, the screen has to go first
            self.failure = self.failure or error
        self._repaint()
        self.exit()

    def _end(self, why: BaseException) -> None:
        self.failure = self.failure or why
        self._exam.stop()

    def _repaint(self) -> None:
        if not self.query("#said"):  # gone already
            return
        self.query_one("#head", Static).update(head(self._exam, time.monotonic() - self._began_s))
        for seat in self._news.take_changed():
            self._cases.replace_option_prompt_at_index(seat.number - 1, list_line(seat))
        self._follow()
        seat = self._exam.seats[self._selected]
        if seat is not self._shown or self._news.is_new:
            self._show(seat)
            self._news.is_new = False

    def _follow(self) -> None:
        """The case that was begun last is looked at, unless somebody looks at another."""
        live = [seat for seat in self._exam.seats if seat.phase.is_live]
        if self._is_following and live and not self._exam.seats[self._selected].phase.is_live:
            self._cases.highlighted = max(live, key=lambda seat: seat.began_s).number - 1

    def _show(self, seat: Seat) -> None:
        if seat is not self._shown:
            self.query_one("#asked", Static).update(question(seat))
            self.query_one("#question", VerticalScroll).scroll_home(animate=False)
            self._shown = seat
        stream = self.query_one("#stream", VerticalScroll)
        room = max(1, stream.size.width) * max(1, stream.size.height)
        self.query_one("#said", Static).update(answer(seat, 2 * room))
        stream.scroll_end(animate=False)


class _News(Watcher):
    """What has changed since the last look."""

    def __init__(self) -> None:
        self.is_new = True
        self._changed: dict[int, Seat] = {}

    def take_changed(self) -> list[Seat]:
        """Cases whose line in the list may be another one now."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def on_begin(self, seat: Seat) -> None:
        """It is asked."""
        self._note(seat)

    def on_news(self, seat: Seat, piece: Piece | None) -> None:
        """It says more."""
        self._note(seat)

    def on_end(self, seat: Seat) -> None:
        """It has ended."""
        self._note(seat)

    def _note(self, seat: Seat) -> None:
        self._changed[seat.number] = seat
        self.is_new = True
