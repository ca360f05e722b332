"""The screen as a whole: sizes, themes, ears, what ends it."""

import os
import signal
import threading
from pathlib import Path

import pytest
from textual.app import App

from agent.tui.screen import SETTINGS, Screen, on_screen, with_settings
from agent.tui.sessions import PROMPT, SESSIONS
from fakes.screen_agent import FakeCockpit, Stage
from whitedwarf.agent.events import Compacting, Drawn, Reading, SessionChanged
from whitedwarf.agent.tui.app import AgentApp, has_room, run_screen
from whitedwarf.agent.tui.terminal import TERMINATED
from whitedwarf.agent.tui.theme_file import ThemeFile
from whitedwarf.conversation.events import ReasoningDelta, TextDelta
from whitedwarf.errors import WhitedwarfError

LONG = "\n\n".join(f"paragraph {number} has some words in it that have to be wrapped" for number in range(200))


def long_answer(stage: Stage) -> None:
    stage.tell(TextDelta(LONG), Drawn(3000, 60.0))


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("size", [(40, 10), (20, 8)], ids=["40x10", "20x8"])
def test_small_terminals_show_the_state_and_can_be_typed_on(name: str, size: tuple[int, int]) -> None:
    async def steps(screen: Screen) -> None:
        await screen.send(PROMPT)
        await screen.quiet()
        assert all(len(row) <= size[0] for row in screen.rows)
        assert screen.rows[-1].strip()
        await screen.type("x")
        assert any("x" in row for row in screen.rows[-3:])

    on_screen(steps, SESSIONS[name], size=size)


@pytest.mark.parametrize("size", [(40, 10), (20, 8), (60, 12), (80, 24)])
def test_a_question_and_its_keys_have_room_in_every_terminal(size: tuple[int, int]) -> None:
    async def steps(screen: Screen) -> None:
        await screen.send(PROMPT)
        await screen.shows("Allow", "rm -r", "always", "no")

    on_screen(steps, SESSIONS["approval"], size=size)


def test_a_window_that_is_too_small_says_so_and_comes_back() -> None:
    async def steps(screen: Screen) -> None:
        await screen.pilot.resize_terminal(18, 5)
        await screen.shows("the window is too", "small")
        await screen.pilot.resize_terminal(80, 24)
        await screen.shows("whitedwarf agent", "ready")

    on_screen(steps)
    assert (has_room(20, 8), has_room(19, 8), has_room(20, 7)) == (True, False, False)


def test_another_size_wraps_everything_again_and_stays_at_the_end() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("paragraph 199")
        for width, height in ((40, 12), (120, 40), (60, 20), (200, 60)):
            await screen.pilot.resize_terminal(width, height)
            await screen.shows("paragraph 199")
            await screen.until(lambda: not screen.view._stale)
            assert all(len(line) <= width for line in screen.view.plain_lines)
        assert sum("paragraph" in line for line in screen.view.plain_lines) == 200

    on_screen(steps, long_answer)


def test_another_size_keeps_what_was_looked_at() -> None:
    async def steps(screen: Screen) -> None:
        for number in range(30):
            await screen.send(f"words {number} of mine, enough of them to be wrapped in a narrow window")
            await screen.until(lambda: not screen.agent.is_busy)
        await screen.quiet()
        await screen.press("pageup", "pageup", "pageup")
        top = next(row for row in screen.rows[1:] if "words" in row).split("mine")[0]
        await screen.pilot.resize_terminal(50, 24)
        await screen.until(lambda: not screen.view._stale)
        await screen.quiet()
        assert top.strip() in "\n".join(screen.rows[:8])

    on_screen(steps)


def test_the_story_is_drawn_at_most_five_times_a_second() -> None:
    def flood(stage: Stage) -> None:
        for number in range(150):
            stage.tell(TextDelta(f"word{number} "), Drawn(number, 0.01 * number))
            stage.wait(0.01)
        stage.hold()

    drawn: list[int] = []

    async def steps(screen: Screen) -> None:
        sync = screen.view.sync
        await screen.send("go")
        await screen.shows("word1 ")
        screen.view.sync = lambda: (drawn.append(1), sync())  # type: ignore[method-assign,assignment,func-returns-value]
        await screen.pilot.pause(1.0)
        assert 1 <= len(drawn) <= 6

    on_screen(steps, flood)


def test_the_title_of_the_session_is_shown() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.until(lambda: screen.rows[0].startswith(" A \ttitle".replace("\t", "")))

    on_screen(steps, lambda stage: stage.tell(SessionChanged("ab", "A title", 5)))


def test_what_a_command_has_the_agent_do_ends_without_a_turn() -> None:
    async def steps(screen: Screen) -> None:
        screen.app.listen(Compacting("rebuild", 500, 12_000))  # as /compact, which is no turn
        await screen.shows("500 of 12000 tokens")
        assert screen.status.startswith("ready ")
        assert "ctx 12k/100k" in screen.status

    on_screen(steps)


def test_power_below_a_hundred_is_shown() -> None:
    async def steps(screen: Screen) -> None:
        await screen.shows("⚡ power 60%")

    on_screen(steps, cockpit=FakeCockpit(power=60))


def test_a_theme_is_chosen_and_remembered(tmp_path: Path) -> None:
    themes = ThemeFile(tmp_path / "deep" / "theme")

    async def steps(screen: Screen) -> None:
        await screen.send("/theme")
        await screen.shows("themes:", "[textual-dark]")
        await screen.send("/theme nord")
        await screen.until(lambda: screen.app.theme == "nord")
        await screen.send("/theme nonsense")
        await screen.shows("there is no theme 'nonsense'")
        await screen.press(*"/theme dr", "tab")
        assert screen.editor.text == "/theme dracula"

    on_screen(steps, settings=with_settings(themes=themes))
    assert themes.load() == "nord"
    assert (tmp_path / "deep" / "theme").stat().st_mode & 0o777 == 0o600

    async def later(screen: Screen) -> None:
        assert screen.app.theme == "nord"

    on_screen(later, settings=with_settings(themes=themes))


def test_a_theme_file_that_is_broken_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert ThemeFile(tmp_path / "binary").load() == ""
    assert ThemeFile(tmp_path).load() == ""
    ThemeFile(tmp_path / "binary" / "below").store("nord")

    async def steps(screen: Screen) -> None:
        assert screen.app.theme == "textual-dark"

    (tmp_path / "unknown").write_text("no such theme\n")
    on_screen(steps, settings=with_settings(themes=ThemeFile(tmp_path / "unknown")))


def test_for_ears_state_is_told_in_lines_and_nothing_is_drawn() -> None:
    def turn(stage: Stage) -> None:
        stage.tell(Reading(10, 200, 0, 0.1), Reading(200, 200, 0, 1.0), ReasoningDelta("so"), Drawn(5, 0.5))
        stage.tell(TextDelta("- yes\n\n> quote"), Drawn(20, 1.0))
        stage.used_tokens = 220

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("reading 200 tokens", "Thought, 5 tokens", "- yes", "> quote", "ready; done, 20.0 t/s")
        await screen.shows("ctx 220/100k")
        assert not set("".join(screen.rows)) & set("│─▌•▸▕▏█●")

    on_screen(steps, turn, settings=with_settings(is_screen_reader=True))


def test_a_first_prompt_is_sent_at_once() -> None:
    async def steps(screen: Screen) -> None:
        await screen.until(lambda: screen.agent.heard == ["begin"])

    on_screen(steps, settings=with_settings(first_prompt="begin"))


def test_selected_text_is_copied_by_ctrl_c_which_then_interrupts_nothing() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("paragraph 199")
        row = next(index for index, text in enumerate(screen.rows) if "paragraph 199" in text)
        await screen.pilot.mouse_down(offset=(1, row))
        await screen.pilot.hover(offset=(13, row))
        await screen.pilot.mouse_up(offset=(13, row))
        await screen.press("ctrl+c")
        assert screen.app.clipboard == "paragraph 199"
        assert screen.agent.interruptions == 0

    on_screen(steps, long_answer)


class Headless:
    """App.run without a terminal; `steps` use the app meanwhile, on a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, use: "threading.Thread | None" = None) -> None:
        run = App.run
        monkeypatch.setattr(AgentApp, "run", lambda app: run(app, headless=True, size=(80, 24)))


def test_run_screen_gives_zero_when_the_user_leaves_and_closes_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    Headless(monkeypatch)
    monkeypatch.setattr(AgentApp, "_welcome", lambda app: (app.call_later(app._leave) and "") or "")
    cockpit = FakeCockpit()
    before = signal.getsignal(signal.SIGTERM)
    assert run_screen(cockpit, SETTINGS) == 0
    assert cockpit.agent is not None
    assert cockpit.agent.is_closed
    assert signal.getsignal(signal.SIGTERM) is before


def test_run_screen_ends_by_sigterm_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    Headless(monkeypatch)
    monkeypatch.setattr(
        AgentApp, "_welcome", lambda app: app.set_timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM)) and ""
    )
    cockpit = FakeCockpit()
    assert run_screen(cockpit, SETTINGS) == TERMINATED
    assert cockpit.agent is not None
    assert cockpit.agent.is_closed


def test_a_screen_that_breaks_down_says_what_does_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(app: AgentApp) -> str:
        raise RuntimeError("no such colour")

    Headless(monkeypatch)
    monkeypatch.setattr(AgentApp, "_welcome", broken)
    cockpit = FakeCockpit()
    with pytest.raises(WhitedwarfError, match="--plain"):
        run_screen(cockpit, SETTINGS)
    assert cockpit.agent is not None
    assert cockpit.agent.is_closed


def test_a_second_wish_to_leave_needs_no_answer_to_the_first() -> None:
    async def steps(screen: Screen) -> None:
        screen.commands.is_unsaved = True
        await screen.press("ctrl+d")
        await screen.shows("Save current session?")
        screen.app._leave()
        await screen.until(lambda: not screen.app.is_running)

    on_screen(steps)
