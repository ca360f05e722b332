"""The screen in a test: a fake agent behind it, keys before it, and what can be read on it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
from textual.pilot import Pilot
from textual.widgets import Static

from fakes.screen_agent import FakeAgent, FakeCockpit, FakeCommands, Scene, echo
from whitedwarf.agent.tui.app import AgentApp
from whitedwarf.agent.tui.cockpit import ScreenSettings
from whitedwarf.agent.tui.editor import Editor
from whitedwarf.agent.tui.log_view import LogView

PATIENCE_S = 60
SETTINGS = ScreenSettings(model="DeepSeek V4 Flash", workspace="/home/ada/app")
Steps = Callable[["Screen"], Awaitable[None]]


class Screen:
    """What a test sees and does."""

    def __init__(self, app: AgentApp, cockpit: FakeCockpit, pilot: Pilot[int]) -> None:
        assert cockpit.agent is not None
        assert cockpit.commands is not None
        self.app, self.pilot = app, pilot
        self.agent: FakeAgent = cockpit.agent
        self.commands: FakeCommands = cockpit.commands

    async def press(self, *names: str) -> None:
        await self.pilot.press(*names)

    async def type(self, text: str) -> None:
        self.editor.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.press("enter")

    async def until(self, is_so: Callable[[], bool]) -> None:
        try:
            with anyio.fail_after(PATIENCE_S):
                while not is_so():
                    await self.pilot.pause(0.02)
        except TimeoutError:
            raise AssertionError("it never came to that; the screen shows:\n" + "\n".join(self.rows)) from None

    async def shows(self, *words: str) -> None:
        await self.until(lambda: all(word in "\n".join(self.rows) for word in words))

    async def quiet(self) -> None:
        """All that was told is shown."""
        await self.pilot.pause(0.45)

    @property
    def editor(self) -> Editor:
        return self.app.query_one(Editor)

    @property
    def view(self) -> LogView:
        return self.app.query_one(LogView)

    @property
    def status(self) -> str:
        return str(self.app.query_one("#status", Static).render())

    @property
    def rows(self) -> list[str]:
        """The screen as text, without spaces at the ends."""
        return screen_rows(self.app)


def screen_rows(app: AgentApp) -> list[str]:
    """What the terminal shows, row by row."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def on_screen(
    steps: Steps,
    *scenes: Scene,
    size: tuple[int, int] = (80, 24),
    settings: ScreenSettings = SETTINGS,
    cockpit: FakeCockpit | None = None,
) -> FakeCockpit:
    """Run the app while `steps` use it; the agent is closed afterwards."""
    cockpit = cockpit or FakeCockpit(scenes or (echo,))

    async def main() -> None:
        app = AgentApp(settings)
        seat = cockpit(app.listen, app)
        app.take_seat(seat)
        try:
            async with app.run_test(size=size) as pilot:
                await steps(Screen(app, cockpit, pilot))
        finally:
            app.refuse_questions()
            seat.agent.close()

    anyio.run(main)
    return cockpit


def with_settings(**changes: object) -> ScreenSettings:
    return replace(SETTINGS, **changes)  # type: ignore[arg-type]


Texts = Sequence[str]
