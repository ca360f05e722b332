"""Whoever asks waits for the user and always gets an answer; a key that was meant for the editor is none."""

import threading

import pytest

from agent.tui.screen import Screen, on_screen, with_settings
from fakes.screen_agent import FakeCockpit, Stage
from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.events import ToolBegan
from whitedwarf.agent.tool import Effect
from whitedwarf.agent.tui.app import AgentApp
from whitedwarf.agent.tui.approval_panel import TYPING_PAUSE_S, Asked, Questions

PAUSE_S = TYPING_PAUSE_S + 0.1
QUESTION = Question("bash", Effect.RUN, "$ make", "make\nmake install")


class Asking:
    """A scene that asks, and what it was told."""

    def __init__(self, *questions: Question) -> None:
        self.questions = questions or (QUESTION,)
        self.answers: list[Consent] = []

    def __call__(self, stage: Stage) -> None:
        for question in self.questions:
            stage.tell(ToolBegan(0, "bash", "$ make", {}))
            self.answers.append(stage.ask(question))


@pytest.mark.parametrize(
    ("key", "consent"),
    [("y", Consent.ONCE), ("Y", Consent.ONCE), ("a", Consent.SESSION), ("n", Consent.NO), ("escape", Consent.NO)],
)
def test_keys_answer(key: str, consent: Consent) -> None:
    asking = Asking()

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash (run)?", "make install", "waiting for your answer")
        await screen.pilot.pause(PAUSE_S)
        await screen.press(key)
        await screen.until(lambda: asking.answers == [consent])
        await screen.until(lambda: not screen.agent.is_busy)
        await screen.until(lambda: screen.app.focused is screen.editor)
        assert "Allow" not in "\n".join(screen.rows)
        assert screen.agent.interruptions == 0

    on_screen(steps, asking)


def test_other_keys_are_no_answer_and_write_nothing() -> None:
    asking = Asking()

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash")
        await screen.pilot.pause(PAUSE_S)
        await screen.press("x", "enter", "space", "up", "down", "pagedown")
        assert asking.answers == []
        assert screen.editor.text == ""

    on_screen(steps, asking)
    assert asking.answers == [Consent.NO]  # the screen went away


def test_a_word_that_is_being_typed_does_not_answer() -> None:
    asking = Asking()

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash")
        screen.app.query_one("#approval").typed()  # type: ignore[attr-defined]
        await screen.press("a", "y")
        await screen.quiet()
        assert asking.answers == []

    on_screen(steps, asking)


def test_ctrl_c_refuses_and_interrupts() -> None:
    asking = Asking()

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash")
        await screen.press("ctrl+c")
        await screen.until(lambda: asking.answers == [Consent.NO])
        assert screen.agent.interruptions == 1

    on_screen(steps, asking)


def test_questions_come_one_after_the_other() -> None:
    asking = Asking(QUESTION, Question("write", Effect.WRITE, "Writing a.py", "@@ -1 +1 @@\n-x\n+y\n", "it is outside"))

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash")
        await screen.pilot.pause(PAUSE_S)
        await screen.press("y")
        await screen.shows("Allow write (write): Writing a.py", "1 - x", "1 + y", "Unusual: it is outside")
        await screen.pilot.pause(PAUSE_S)
        await screen.press("n")
        await screen.until(lambda: asking.answers == [Consent.ONCE, Consent.NO])

    on_screen(steps, asking)


def test_a_long_question_can_be_scrolled_and_keeps_its_keys_in_sight() -> None:
    detail = "\n".join(f"line {number}" for number in range(60))
    asking = Asking(Question("bash", Effect.RUN, "$ long", detail))

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("line 0", "yes, once")
        assert "line 59" not in "\n".join(screen.rows)
        for _ in range(8):
            await screen.press("pagedown")
        await screen.shows("line 59", "yes, once")

    on_screen(steps, asking, size=(60, 20))


def test_questions_show_orders_to_the_terminal_as_signs() -> None:
    asking = Asking(Question("ba\x1bsh", Effect.RUN, "$ \x1b[2J", "a\x07\u202eb", "\x1b"))

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow ba␛sh (run): $ ␛[2J", "a␇⟨202E⟩b", "Unusual: ␛")

    on_screen(steps, asking)


def test_for_ears_a_question_is_words_only() -> None:
    asking = Asking()

    async def steps(screen: Screen) -> None:
        await screen.send("go")
        await screen.shows("Allow bash", "y yes, once")
        assert not set("".join(screen.rows)) & set("━─▔▁│┃")

    on_screen(steps, asking, settings=with_settings(is_screen_reader=True))


def test_a_screen_that_is_gone_says_no_at_once() -> None:
    app = AgentApp(with_settings())
    app.refuse_questions()
    assert app.ask(QUESTION) is Consent.NO
    assert app.confirm("really?") is False


def test_who_waits_is_refused_when_the_screen_goes() -> None:
    told: list[int] = []
    questions = Questions(lambda: told.append(1))
    answers: list[Consent] = []
    threads = [threading.Thread(target=lambda: answers.append(questions.wait_for(Asked(QUESTION)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    while questions.first is None or len(told) < 3:
        threading.Event().wait(0.01)
    questions.close()
    for thread in threads:
        thread.join(60)
    assert answers == [Consent.NO] * 3


def test_the_first_reply_counts() -> None:
    asked = Asked(QUESTION)
    asked.reply(Consent.NO)
    asked.reply(Consent.SESSION)
    assert asked.answer.result() is Consent.NO


def test_a_question_before_the_screen_is_drawn_is_shown_then() -> None:
    asking = Asking()
    cockpit = FakeCockpit((asking,))

    async def steps(screen: Screen) -> None:
        await screen.shows("Allow bash")

    on_screen(steps, cockpit=cockpit, settings=with_settings(first_prompt="go"))
