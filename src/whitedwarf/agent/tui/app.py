"""The agent's screen: `run_screen` is the entry; it returns when the user leaves.

The agent's thread never waits for the screen, except for the answer to a question, and the screen never for the agent:
events are taken in batches, `REDRAW_S` apart; what is typed is drawn at once.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.command_help import help_text
from whitedwarf.agent.events import Event, Reading, TurnEnded
from whitedwarf.agent.tool import Effect
from whitedwarf.agent.tui import keys, own_commands
from whitedwarf.agent.tui.activity import Activity, Phase
from whitedwarf.agent.tui.approval_panel import ApprovalPanel, Asked, Questions
from whitedwarf.agent.tui.cockpit import Build, Cockpit, Obeyed, ScreenSettings
from whitedwarf.agent.tui.commander import Commander
from whitedwarf.agent.tui.editor import Editor
from whitedwarf.agent.tui.entries import Noted, Told
from whitedwarf.agent.tui.figures import count, rate
from whitedwarf.agent.tui.inbox import Inbox
from whitedwarf.agent.tui.log_view import LogView
from whitedwarf.agent.tui.queue_preview import MOST_SHOWN, queue_preview
from whitedwarf.agent.tui.shown import one_line
from whitedwarf.agent.tui.status_line import head_line, status_line
from whitedwarf.agent.tui.story import Story
from whitedwarf.agent.tui.terminal import asked_size, ending_signals, kept_handlers, know_alt_enter
from whitedwarf.errors import WhitedwarfError

REDRAW_S = 0.2
INTERRUPTING = "interrupting …"
HINT_S = 4.0
AGAIN_S = 2.0  # a second Ctrl+C within this leaves
FEWEST_COLUMNS, FEWEST_ROWS = 20, 8
_LOW_ROWS = 14  # with fewer, the head line is left out


def has_room(columns: int, rows: int) -> bool:
    """Whether a terminal of this size can show the screen; without, `--plain` is the way."""
    return columns >= FEWEST_COLUMNS and rows >= FEWEST_ROWS


def run_screen(build: Build, settings: ScreenSettings) -> int:
    """Talk until the user leaves; the exit status: 0, or 143 after SIGTERM. The agent is closed then, in any case.

    `build` is called once, on this thread, before anything is drawn; what the agent tells from then on is shown.
    WhitedwarfError when the screen itself broke down.
    """
    know_alt_enter()
    app = AgentApp(settings)
    cockpit = build(app.listen, app)
    try:
        app.take_seat(cockpit)
        with kept_handlers(), asked_size():
            status = app.run()
    finally:
        app.refuse_questions()
        cockpit.agent.close()
    if app.return_code and status is None:  # textual has told why
        raise WhitedwarfError("the screen broke down; --plain does without one")
    return status or 0


class AgentApp(App[int], inherit_bindings=False):
    """Listens to an agent (`listen`), asks for it (`ask`, `confirm`), and shows it."""

    CSS = """
    #head { height: 1; background: $panel; color: $text-muted; }
    #queue { height: auto; padding: 0 1; color: $text-muted; display: none; }
    #line { height: auto; max-height: 8; padding: 0 0 0 1; border-top: solid $panel; }
    #mark { width: 2; color: $primary; text-style: bold; }
    #status { height: 1; background: $panel; padding: 0 1; }
    #cramped { display: none; }
    .-plain #line { border-top: none; }
    .-plain LogView { scrollbar-size-vertical: 0; }
    .-low #head { display: none; }
    .-low #line, .-low ApprovalPanel { border-top: none; }
    .-cramped #main { display: none; }
    .-cramped #cramped { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = keys.BINDINGS

    class CommandEnded(Message):
        """A command has done its work."""

        def __init__(self, line: str, outcome: Obeyed) -> None:
            super().__init__()
            self.line = line
            self.outcome = outcome

    class QuestionsChanged(Message):
        """Somebody asks, or has been answered."""

    def __init__(self, settings: ScreenSettings) -> None:
        super().__init__()
        self._settings = settings
        self._cockpit: Cockpit | None = None
        self._commander: Commander | None = None
        self._inbox = Inbox()
        self._heard: deque[Event] = deque()  # taken from there, not shown yet
        self._story = Story(settings.is_screen_reader)
        self._activity = Activity()
        self._questions = Questions(lambda: self.post_message(self.QuestionsChanged()))
        self._hint = ""
        self._hint_until_s = 0.0
        self._phase_since_s = 0.0
        self._stopped_s = -AGAIN_S
        self._left_s = -AGAIN_S

    # What the agent's thread calls.

    def listen(self, event: Event) -> None:
        """From any thread, at once."""
        self._inbox.put(event)

    def ask(self, question: Question) -> Consent:
        """From any thread but the screen's; waits for the user."""
        return self._questions.wait_for(Asked(question))

    def confirm(self, text: str) -> bool:
        """From any thread but the screen's; waits for the user."""
        asked = Asked(Question("", Effect.READ, text), is_confirmation=True)
        return self._questions.wait_for(asked) is not Consent.NO

    # The screen.

    def take_seat(self, cockpit: Cockpit) -> None:
        """The agent that is talked to; before `run`."""
        self._cockpit = cockpit

    def refuse_questions(self) -> None:
        """Nobody looks any more."""
        self._questions.close()

    def compose(self) -> ComposeResult:
        """The story, what is asked, what waits, the editor, and a line of state."""
        is_plain = self._settings.is_screen_reader
        with Vertical(id="main"):
            yield Static(id="head", markup=False)
            yield LogView(self._story)
            yield ApprovalPanel(is_plain)
            yield Static(id="queue", markup=False)
            with Horizontal(id="line"):
                yield Static("›" if not is_plain else ">", id="mark", markup=False)
                yield Editor(self._settings.past, self._completions)
            yield Static(id="status", markup=False)
        yield Static(f"the window is too small: {FEWEST_COLUMNS}x{FEWEST_ROWS} at least", id="cramped", markup=False)

    def on_mount(self) -> None:
        """Begin."""
        self.set_class(self._settings.is_screen_reader, "-plain")
        self._choose_theme(self._settings.theme or (self._settings.themes.load() if self._settings.themes else ""))
        self._commander = Commander(
            self._seat.commands, lambda line, done: self.post_message(self.CommandEnded(line, done))
        )
        for number, status in ending_signals().items():
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # no main thread, another system
                asyncio.get_running_loop().add_signal_handler(number, self.exit, status)
        self._story.add(Told(self._welcome()))
        self.set_interval(REDRAW_S, self._redraw_in_slices)
        self._editor.focus()
        self._redraw()
        if self._settings.first_prompt:
            self._seat.agent.submit(self._settings.first_prompt)

    def on_unmount(self) -> None:
        """Nobody can be asked any more."""
        self._questions.close()

    def on_resize(self, event: events.Resize) -> None:
        """Another size has room for more or less."""
        self.set_class(not has_room(event.size.width, event.size.height), "-cramped")
        self.set_class(event.size.height < _LOW_ROWS, "-low")
        self.query_one(ApprovalPanel).fit(event.size)
        self.call_after_refresh(self._redraw)

    def on_editor_sent(self, message: Editor.Sent) -> None:
        """Enter: say it, queue it, or obey it."""
        text = message.text
        if not text.strip():
            return
        if text.startswith("/"):
            self._obey(text.strip())
            return
        self._editor.remember(text)
        self._editor.replace_all("")
        self._view.follow()
        self._seat.agent.submit(text)
        self.set_timer(0.02, self._redraw)

    def on_editor_left(self, message: Editor.Left) -> None:
        """Ctrl+D on an empty line."""
        self._leave()

    def on_editor_hinted(self, message: Editor.Hinted) -> None:
        """Something to tell."""
        self._tell(message.text)

    def on_text_area_changed(self) -> None:
        """Typing goes on, which no question should take for its answer."""
        self.query_one(ApprovalPanel).typed()

    def on_log_view_folded(self, message: LogView.Folded) -> None:
        """A click at a thought or a tool."""
        self._story.fold(message.entry, not message.entry.is_open)
        self._view.sync()

    def on_agent_app_questions_changed(self) -> None:
        """Show the first question, or none."""
        asked = self._questions.first
        self.query_one(ApprovalPanel).show(asked)
        if asked is not None:
            self.bell()
        else:
            self._editor.focus()
        self._redraw()

    def on_approval_panel_replied(self, message: ApprovalPanel.Replied) -> None:
        """The thread that asked goes on."""
        message.asked.reply(message.consent)

    def on_agent_app_command_ended(self, message: CommandEnded) -> None:
        """What a command has to say."""
        self._redraw()  # what the agent told meanwhile stands above
        outcome = message.outcome
        if not outcome.is_known:
            self._refuse_word(message.line)
            return
        if outcome.text:
            self._story.add(Noted(outcome.text, True) if outcome.is_error else Told(outcome.text, message.line))
        if outcome.leaves:
            self.exit(0)
        self._view.follow()
        self._redraw()

    def action_interrupt(self) -> None:
        """Esc: no to a question, else an end of what the agent does; what is queued is sent then."""
        asked = self._questions.first
        if asked is not None:
            asked.reply(Consent.NO)
        elif self._seat.agent.is_busy:
            self._interrupt()

    def action_stop_or_leave(self) -> None:
        """Ctrl+C."""
        if self.screen.get_selected_text():
            self.screen.action_copy_text()
            self.screen.clear_selection()
            self._tell("copied")
        elif self._seat.agent.is_busy or self._questions.first is not None:
            self._interrupt()
        elif self._editor.text:
            self._editor.replace_all("")
            self._tell("Ctrl+C on the empty line, twice, or Ctrl+D leaves")
        elif time.monotonic() - self._stopped_s < AGAIN_S:
            self._leave()
        else:
            self._stopped_s = time.monotonic()
            self._tell("Ctrl+C again leaves")

    def action_take_queued(self) -> None:
        """Ctrl+X: the oldest queued text into the editor, before what is there."""
        text = self._seat.agent.take_queued()
        if text is None:
            self.bell()
            return
        rest = self._editor.text
        self._editor.replace_all(f"{text}\n{rest}" if rest else text)
        self._draw_status()

    def action_fold(self) -> None:
        """Ctrl+O: open all, or fold all."""
        self._story.fold_all(not any(entry.is_open for entry in self._story.entries))
        self._view.sync()

    def action_page(self, step: int) -> None:
        """PgUp and PgDn: in the question's details, where there is a question, else in the story."""
        if self._questions.first is not None:
            self.query_one(ApprovalPanel).scroll_page(step)
        else:
            self._view.scroll_by(step * self._view.page)

    def action_to_start(self) -> None:
        """The oldest line."""
        self._view.scroll_by(-len(self._view.plain_lines))

    def action_to_end(self) -> None:
        """The newest line."""
        self._view.follow()

    def action_redraw(self) -> None:
        """Ctrl+L."""
        self._redraw()
        self.refresh(layout=True)

    def action_keys(self) -> None:
        """F1."""
        self._story.add(Told(keys.HELP))
        self._view.follow()
        self._view.sync()

    @property
    def _seat(self) -> Cockpit:
        assert self._cockpit is not None, "take_seat comes before run"
        return self._cockpit

    @property
    def _editor(self) -> Editor:
        return self.query_one(Editor)

    @property
    def _view(self) -> LogView:
        return self.query_one(LogView)

    def _interrupt(self) -> None:
        self._seat.agent.interrupt()
        self._questions.refuse_all()
        self._tell(INTERRUPTING)

    def _leave(self) -> None:
        """As /quit does, which may ask, or want the agent to be idle; a second time, soon after, at once."""
        now_s = time.monotonic()
        if now_s - self._left_s < AGAIN_S or self._commander is None:
            self.exit(0)
            return
        self._left_s = now_s
        self._commander.obey("/quit")

    def _obey(self, line: str) -> None:
        word = line.split()[0]
        if word not in own_commands.words(self._seat.commands):
            self._refuse_word(line)
            return
        self._editor.remember(line)
        self._editor.replace_all("")
        if word == own_commands.THEME:
            self._obey_theme(line.split()[1:])
        elif word == own_commands.HELP:
            self._story.add(Told(help_text(own_commands.words(self._seat.commands)), line))
            self._view.follow()
            self._redraw()
        elif self._commander is not None:
            self._commander.obey(line)

    def _refuse_word(self, line: str) -> None:
        """The text stays, or comes back, to be put right."""
        self.bell()
        if not self._editor.text:
            self._editor.replace_all(line)
        self._tell(f"no command: {one_line(line.split()[0])}; /help lists them; a space before it sends it as text")

    def _obey_theme(self, names: Sequence[str]) -> None:
        known = sorted(self.available_themes)
        if not names:
            self._story.add(Told("themes: " + ", ".join(f"[{n}]" if n == self.theme else n for n in known)))
        elif self._choose_theme(names[0]):
            if self._settings.themes is not None:
                self._settings.themes.store(names[0])
        else:
            self._story.add(Noted(f"there is no theme {names[0]!r}; there are {', '.join(known)}", is_error=True))
        self._view.sync()

    def _choose_theme(self, name: str) -> bool:
        if name not in self.available_themes:
            return False
        self.theme = name
        return True

    def _completions(self, line: str) -> list[str]:
        return own_commands.completions(self._seat.commands, sorted(self.available_themes), line)

    def _welcome(self) -> str:
        context = count(self._seat.context_length())
        where = f"{one_line(self._settings.model)} · {context} tokens of context · {one_line(self._settings.workspace)}"
        said = f"\n\n{self._seat.welcome}" if self._seat.welcome else ""
        return f"whitedwarf agent\n{where}\n/help: commands · F1: keys{said}"

    def _tell(self, text: str) -> None:
        """A hint in the place of the state, for a while."""
        self._hint = text
        self._hint_until_s = time.monotonic() + HINT_S
        self._draw_status()

    def _redraw(self) -> None:
        """Everything that may have changed."""
        if not self.is_running or not self.query("#status"):  # gone already
            return
        self._fetch()
        while self._heard:
            self._hear(self._heard.popleft())
        self._mark_asked()
        self._view.sync()
        self._draw_status()

    async def _redraw_in_slices(self) -> None:
        """The same, with room for a key between any two parts of it."""
        if not self.is_running or not self.query("#status"):
            return
        self._fetch()
        while self._heard:
            self._hear(self._heard.popleft())
            await asyncio.sleep(0)
        self._mark_asked()
        self._view.sync()
        await asyncio.sleep(0)
        self._draw_status()

    def _mark_asked(self) -> None:
        asked = self._questions.first
        self._story.ask(asked is not None and not asked.is_confirmation)

    def _fetch(self) -> None:
        self._heard += self._inbox.take()

    def _hear(self, event: Event) -> None:
        before, self._activity = self._activity, self._activity.after(event)
        if before.phase is not self._activity.phase:
            self._phase_since_s = time.monotonic()
        if isinstance(event, TurnEnded) and self._hint == INTERRUPTING:
            self._hint = ""
        self._story.tell(event)
        if self._settings.is_screen_reader:
            self._announce(before, event)

    def _announce(self, before: Activity, event: Event) -> None:
        """State as lines, for who hears the screen."""
        if isinstance(event, Reading) and before.phase is not Phase.READING:
            self._story.add(Noted(f"reading {event.total} tokens"))
        elif isinstance(event, TurnEnded):
            speed = rate(before.tokens, before.seconds)
            self._story.add(Noted(f"ready; {event.end.value}" + (f", {speed}" if speed else "")))

    def _now(self) -> Activity:
        """What events do not tell in time: what is queued, and the end of what a command has begun."""
        agent = self._seat.agent
        if agent.is_busy:
            return replace(self._activity, waiting=agent.queued)
        return replace(self._activity, phase=Phase.IDLE)

    def _draw_status(self) -> None:
        width, settings = self.size.width, self._settings
        activity = self._now()
        _show(self.query_one("#head", Static), head_line(settings.model, settings.workspace, activity.title, width))
        queue = self.query_one("#queue", Static)
        queue.display = bool(activity.waiting)
        _show(queue, queue_preview(activity.waiting, width - 2, 1 if self.size.height < _LOW_ROWS else MOST_SHOWN))
        hint = one_line(self._hint) if time.monotonic() < self._hint_until_s else ""
        if not hint and not self._view.is_following:
            hint = "scrolled up; Ctrl+End follows again"
        _show(
            self.query_one("#status", Static),
            status_line(
                activity,
                context=self._seat.context_length(),
                compact_at=settings.compact_at,
                power=self._seat.power_percent(),
                width=max(1, width - 2),
                elapsed_s=time.monotonic() - self._phase_since_s,
                hint=hint,
                is_asking=self._questions.first is not None,
                is_plain=settings.is_screen_reader,
            ),
        )


def _show(widget: Static, content: Content) -> None:
    """Only what is new is drawn."""
    if not (isinstance(widget.content, Content) and widget.content.is_same(content)):
        is_higher = content.plain.count("\n") != str(widget.content).count("\n")
        widget.update(content, layout=is_higher)
