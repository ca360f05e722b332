"""The split screen: keys do what they say, whatever size the terminal has."""

import signal
from collections.abc import Awaitable, Callable

import anyio
import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from evals.answering import ASKING, TableTarget, letters
from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.exam import Exam, Phase
from whitedwarf.evals.target import NoMoreQuestionsError
from whitedwarf.evals.tui.app import ExamApp, show

PATIENCE_S = 60
Steps = Callable[["Screen"], Awaitable[None]]


class Screen:
    """An exam on a screen, and what can be seen there."""

    def __init__(self, app: ExamApp, exam: Exam, target: TableTarget, pilot: Pilot[None]) -> None:
        self.app, self.exam, self.target, self.pilot = app, exam, target, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not is_so():
                await self.pilot.pause(0.02)

    def text(self, name: str) -> str:
        return str(self.app.query_one(name, Static).render())

    @property
    def phases(self) -> list[str]:
        listed = self.app.query_one(OptionList)
        return [str(listed.get_option_at_index(index).prompt).split()[1] for index in range(listed.option_count)]

    @property
    def looked_at(self) -> int | None:
        return self.app.query_one(OptionList).highlighted


def watch(target: TableTarget, steps: Steps, *, ids: str = "abcd", size: tuple[int, int] = (100, 30)) -> ExamApp:
    """Run an exam of these cases on a screen while `steps` use it; they have to end it, or let it end."""
    exam = Exam(letters(*ids), target, ASKING)
    app = ExamApp(exam)

    async def main() -> None:
        async with app.run_test(size=size) as pilot:
            await steps(Screen(app, exam, target, pilot))

    anyio.run(main)
    return app


async def to_the_end(screen: Screen) -> None:
    await screen.until(lambda: not any(seat.phase in (Phase.PENDING, Phase.READING) for seat in screen.exam.seats))


def held(*ids: str, **answers: str | WhitedwarfError) -> TableTarget:
    return TableTarget(answers, {name: anyio.Event() for name in ids})


def test_a_screen_that_breaks_down_is_no_exam_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(app: ExamApp) -> None:
        raise RuntimeError("no such colour")

    monkeypatch.setattr(ExamApp, "run", lambda app, **options: App.run(app, headless=True))
    monkeypatch.setattr(ExamApp, "_repaint", broken)
    exam = Exam(letters("a", "b"), held("a"), ASKING)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(WhitedwarfError, match="--plain"):
        show(exam)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not any(seat.phase.is_live for seat in exam.seats)


def test_it_begins_by_itself_and_shows_what_is_said() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[1] == "RUN")
        assert screen.phases == ["PASS", "RUN", "PEND", "PEND"]
        await screen.until(lambda: "Hm. " in screen.text("#said"))
        assert "own/b: Case b (Letters)" in screen.text("#asked")
        assert "Which letter is b?" in screen.text("#asked")
        assert "1/4 done" in screen.text("#head")
        assert "1 passed" in screen.text("#head")
        assert screen.looked_at == 1
        screen.target.held["b"].set()
        await to_the_end(screen)

    app = watch(held("b"), steps)
    assert app.failure is None
    assert app.return_code == 0


def test_q_stops_and_leaves() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[0] == "RUN")
        await screen.press("q")
        await screen.until(lambda: screen.exam.seats[0].phase is Phase.STOPPED)

    app = watch(held("a"), steps)
    assert app.failure is None


def test_ctrl_c_leaves_as_an_interrupt() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[0] == "RUN")
        await screen.press("ctrl+c")
        await screen.until(lambda: screen.exam.seats[0].phase is Phase.STOPPED)

    assert isinstance(watch(held("a"), steps).failure, KeyboardInterrupt)


def test_p_pauses_and_goes_on() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[0] == "RUN")
        await screen.press("p")
        assert screen.exam.is_paused
        assert "PAUSED" in screen.text("#head")
        screen.target.held["a"].set()
        await screen.until(lambda: screen.phases[0] == "PASS")
        assert screen.target.asked == ["a"]
        await screen.press("p")
        assert "PAUSED" not in screen.text("#head")
        await to_the_end(screen)

    watch(held("a"), steps)


def test_arrows_look_at_others_and_escape_comes_back() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[1] == "RUN" and screen.looked_at == 1)
        await screen.press("down", "down")
        assert screen.looked_at == 3
        await screen.until(lambda: "own/d" in screen.text("#asked"))
        await screen.press("up", "up", "up")
        assert screen.looked_at == 0
        await screen.until(lambda: "PASSED: answer B, right is B" in screen.text("#said"))
        await screen.press("up")  # round to the last one
        assert screen.looked_at == 3
        await screen.press("escape")
        assert screen.looked_at == 1
        await screen.press("q")

    watch(held("b"), steps)


def test_enter_asks_the_selected_case_at_once_and_the_running_one_again() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[0] == "RUN")
        await screen.press("down", "down")
        del screen.target.held["a"]
        await screen.press("enter")
        await screen.until(lambda: screen.phases[2] == "RUN")
        assert screen.phases == ["PEND", "PEND", "RUN", "PEND"]
        assert screen.looked_at == 2
        screen.target.held["c"].set()
        await to_the_end(screen)

    target = held("a", "c")
    watch(target, steps)
    assert target.asked == ["a", "c", "a", "b", "d"]


def test_a_long_question_can_be_read() -> None:
    async def steps(screen: Screen) -> None:
        pane = screen.app.query_one("#question")
        await screen.until(lambda: screen.phases[0] == "RUN" and pane.max_scroll_y > 0)
        await screen.press("pagedown")
        await screen.until(lambda: pane.scroll_offset.y > 0)
        await screen.press("pageup")
        await screen.until(lambda: pane.scroll_offset.y == 0)
        await screen.press("q")

    watch(held("a"), steps, size=(90, 18))


@pytest.mark.parametrize("size", [(90, 18), (200, 60), (40, 8), (20, 3)])
def test_any_size_will_do_and_may_change(size: tuple[int, int]) -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[0] == "RUN")
        for width, height in ((120, 40), (10, 2), (95, 20)):
            await screen.pilot.resize_terminal(width, height)
            await screen.pilot.pause(0.15)
        screen.target.held["a"].set()
        await to_the_end(screen)

    app = watch(held("a"), steps, size=size)
    assert app.failure is None


def test_markup_and_control_characters_are_only_text() -> None:
    nasty = "[bold]no[/bold] [/] \x1b[31mred\x07 \r </think> Answer: [B]"

    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[1] == "RUN")
        await screen.press("up")
        await screen.until(lambda: "[bold]no[/bold] [/] ·[31mred· ·" in screen.text("#said"))
        assert "Answer: [B]" in screen.text("#said")
        await screen.press("q")

    watch(held("b", a=nasty), steps)


def test_a_long_answer_shows_its_end() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.phases[1] == "RUN")
        await screen.press("up")
        await screen.until(lambda: "the very end" in screen.text("#said"))
        assert len(screen.text("#said")) < 20_000
        await screen.press("q")

    watch(held("b", a="word " * 5000 + "</think> the very end Answer: B"), steps)


def test_a_target_that_answers_no_more_ends_the_screen_with_its_error() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.app.failure is not None)

    app = watch(held(b=NoMoreQuestionsError("wrong key")), steps)
    assert isinstance(app.failure, NoMoreQuestionsError)


def test_ninety_two_cases_at_a_time_are_no_trouble() -> None:
    exam_ids = [f"case-{number}" for number in range(92)]
    target = TableTarget()
    exam = Exam(letters(*exam_ids), target, ASKING, parallel=92)
    app = ExamApp(exam)

    async def main() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            await Screen(app, exam, target, pilot).until(lambda: all(seat.phase is Phase.PASSED for seat in exam.seats))

    anyio.run(main)
    assert app.failure is None
