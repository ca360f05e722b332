"""The agent's screen: `run_screen` is the entry; it returns when the user leaves."""

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, RichLog

from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.events import Event
from whitedwarf.agent.tui.cockpit import Build, Cockpit, ScreenSettings
from whitedwarf.conversation.events import ReasoningDelta, TextDelta
from whitedwarf.errors import WhitedwarfError


def run_screen(build: Build, settings: ScreenSettings) -> int:
    """Talk until the user leaves; 0, or 130 after a second Ctrl+C. The agent is closed then, whatever happened.

    `build` is called once, on this thread, before anything is drawn; what the agent tells from then on is shown.
    WhitedwarfError when the screen itself broke down.
    """
    app = AgentApp(settings)
    cockpit = build(app.listen, app)
    try:
        app.take_seat(cockpit)
        app.run()
    finally:
        cockpit.agent.close()
    if app.return_code:
        raise WhitedwarfError("the screen broke down; --plain does without one")
    return 0


class AgentApp(App[None]):
    """The first, small one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", priority=True)]

    def __init__(self, settings: ScreenSettings) -> None:
        super().__init__()
        self._settings = settings
        self._cockpit: Cockpit | None = None

    def take_seat(self, cockpit: Cockpit) -> None:
        """The agent that is talked to."""
        self._cockpit = cockpit

    def compose(self) -> ComposeResult:
        """What was said above a line to type on."""
        yield RichLog(wrap=True)
        yield Input()

    def listen(self, event: Event) -> None:
        """From any thread."""
        if self.is_running and isinstance(event, TextDelta | ReasoningDelta):
            self.call_from_thread(self.query_one(RichLog).write, Content(event.text))

    def ask(self, question: Question) -> Consent:
        """Nobody is asked yet."""
        return Consent.NO

    def confirm(self, text: str) -> bool:
        """Nobody is asked yet."""
        return False

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Say it, or obey it."""
        message.input.clear()
        if self._cockpit is None:
            return
        if message.value.startswith("/"):
            if self._cockpit.commands.obey(message.value).leaves:
                self.exit()
        else:
            self._cockpit.agent.submit(message.value)

    def action_leave(self) -> None:
        """Ctrl+C."""
        self.exit()
