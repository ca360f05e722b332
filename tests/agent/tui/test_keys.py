"""Every key of the screen does what the help says."""

from collections.abc import Iterable

from agent.tui.screen import Screen, on_screen, with_settings
from fakes.screen_agent import FakeCockpit, Stage, echo
from whitedwarf.agent.events import Drawn
from whitedwarf.conversation.events import ReasoningDelta, TextDelta


class Past:
    """What was typed before, and what is stored."""

    def __init__(self, *newest_first: str) -> None:
        self.newest_first = newest_first
        self.stored: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        return self.newest_first

    def store_string(self, string: str) -> None:
        self.stored.append(string)


def busy(stage: Stage) -> None:
    stage.tell(TextDelta("I am at it"), Drawn(3, 0.2))
    stage.hold()


def test_enter_sends_what_was_typed() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press(*"hello", "enter")
        await screen.shows("› hello", "ready")
        assert screen.agent.heard == ["hello"]
        assert screen.editor.text == ""

    on_screen(steps)


def test_enter_on_an_empty_line_says_nothing() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("enter", "space", "enter")
        await screen.quiet()
        assert screen.agent.heard == []

    on_screen(steps)


def test_enter_queues_while_the_agent_works_and_escape_sends_the_queue() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.shows("I am at it")
        await screen.send("one")
        await screen.send("two")
        await screen.shows("queued 1: one", "queued 2: two")
        await screen.press("escape")
        await screen.until(lambda: screen.agent.heard == ["begin", "one\n\ntwo"])
        await screen.shows("Interrupted; the model")
        assert "queued" not in "\n".join(screen.rows)

    on_screen(steps, busy, echo)


def test_three_keys_begin_a_new_line() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("a", "alt+enter", "b", "shift+enter", "c", "ctrl+j", "d", "enter")
        await screen.until(lambda: screen.agent.heard == ["a\nb\nc\nd"])

    on_screen(steps)


def test_ctrl_x_takes_the_first_queued_text_back_before_what_is_being_typed() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.send("first")
        await screen.send("second")
        await screen.type("draft")
        await screen.press("ctrl+x")
        assert screen.editor.text == "first\ndraft"
        await screen.shows("queued 1: second")
        await screen.press("ctrl+c")  # ends the turn; the rest of the queue is said
        await screen.until(lambda: screen.agent.heard == ["begin", "second"])

    on_screen(steps, busy, echo)


def test_ctrl_x_with_an_empty_queue_changes_nothing() -> None:
    async def steps(screen: Screen) -> None:
        await screen.type("draft")
        await screen.press("ctrl+x")
        assert screen.editor.text == "draft"

    on_screen(steps)


def test_ctrl_c_interrupts_and_keeps_what_is_being_typed() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.shows("I am at it")
        await screen.type("draft")
        await screen.press("ctrl+c")
        await screen.until(lambda: not screen.agent.is_busy)
        assert screen.editor.text == "draft"

    on_screen(steps, busy)


def test_ctrl_c_clears_the_line_then_hints_then_leaves() -> None:
    async def steps(screen: Screen) -> None:
        await screen.type("draft")
        await screen.press("ctrl+c")
        assert screen.editor.text == ""
        await screen.shows("leaves")
        await screen.press("ctrl+c", "ctrl+c")
        await screen.until(lambda: screen.commands.obeyed == ["/quit"])

    on_screen(steps)


def test_ctrl_d_leaves_on_an_empty_line_only() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("a", "b", "left", "ctrl+d")
        assert screen.editor.text == "a"
        await screen.press("backspace", "ctrl+d")
        await screen.until(lambda: screen.commands.obeyed == ["/quit"])

    on_screen(steps)


def test_up_and_down_walk_through_what_was_typed_and_back_to_the_draft() -> None:
    past = Past("newer", "older\nof two lines")

    async def steps(screen: Screen) -> None:
        await screen.type("draft")
        await screen.press("up")
        assert screen.editor.text == "newer"
        await screen.press("up")
        assert screen.editor.text == "older\nof two lines"
        await screen.press("up", "up", "up")  # to the first line, and no further than the oldest
        assert screen.editor.text == "older\nof two lines"
        await screen.press("down", "down")
        assert screen.editor.text == "newer"
        await screen.press("down")
        assert screen.editor.text == "draft"
        await screen.press("enter")
        assert past.stored == ["draft"]

    on_screen(steps, settings=with_settings(past=past))


def test_what_was_sent_can_be_fetched_back() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("first")
        await screen.send("/list")
        await screen.press("up", "up")
        assert screen.editor.text == "first"

    on_screen(steps)


def test_tab_completes_a_command_and_the_ids_after_switch() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("/", "s", "w", "tab")
        assert screen.editor.text == "/switch"
        await screen.press("space", "7", "tab")
        assert screen.editor.text == "/switch 7700aa11"
        screen.editor.replace_all("/switch ")
        await screen.press("tab")
        await screen.shows("/switch ab12cd34, /switch ab99ffee")
        await screen.press("tab")
        assert screen.editor.text == "/switch ab12cd34"
        await screen.press("tab")
        assert screen.editor.text == "/switch ab99ffee"

    on_screen(steps, size=(120, 24))


def test_tab_in_other_text_changes_nothing() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("a", "tab", "b")
        assert screen.editor.text == "ab"

    on_screen(steps)


def test_an_unknown_command_stays_in_the_editor_and_rings() -> None:
    bells: list[int] = []

    async def steps(screen: Screen) -> None:
        screen.app.bell = lambda: bells.append(1)  # type: ignore[method-assign]
        await screen.send("/swich 77")
        await screen.shows("no command: /swich")
        assert screen.editor.text == "/swich 77"
        assert screen.commands.obeyed == []
        assert bells

    on_screen(steps)


def test_a_command_is_obeyed_also_while_the_agent_works() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.send("/list")
        await screen.shows("done: /list")
        assert screen.agent.is_busy

    on_screen(steps, busy)


def test_a_command_that_breaks_down_is_told_and_the_next_one_works() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("/break")
        await screen.shows("Error: /break broke down: ValueError: no such thing")
        await screen.send("/list")
        await screen.shows("done: /list")

    on_screen(steps)


def many_lines(stage: Stage) -> None:
    stage.tell(TextDelta("\n\n".join(f"paragraph {number}" for number in range(100))))
    stage.wait(0.5)
    stage.tell(TextDelta("\n\nand one more"))


def test_whoever_scrolls_up_keeps_their_place_until_they_go_back_to_the_end() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.shows("paragraph 99")
        await screen.press("pageup", "pageup")
        before = round(screen.view.scroll_y)
        top = screen.rows[1]
        await screen.until(lambda: "and one more" in screen.view.plain_lines)
        assert (round(screen.view.scroll_y), screen.rows[1]) == (before, top)
        await screen.shows("scrolled up")
        await screen.press("pagedown", "pagedown", "pagedown")
        await screen.shows("and one more")
        await screen.press("ctrl+home")
        await screen.shows("whitedwarf agent")
        await screen.press("ctrl+end")
        await screen.shows("and one more")

    on_screen(steps, many_lines)


def test_the_wheel_scrolls() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")
        await screen.shows("paragraph 99")
        end = screen.view.scroll_y
        screen.view._on_mouse_scroll_up(_wheel(screen))
        await screen.until(lambda: screen.view.scroll_y < end)
        assert not screen.view.is_following

    on_screen(steps, many_lines)


def thinks(stage: Stage) -> None:
    stage.tell(ReasoningDelta("a deep\nthought\n"), Drawn(4, 0.5), TextDelta("so it is"))


def test_ctrl_o_opens_and_folds_thoughts() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("why?")
        await screen.shows("so it is", "▸ Thought, 4 tokens, 0.5 s")
        assert "deep" not in "\n".join(screen.rows)
        await screen.press("ctrl+o")
        await screen.shows("▾ Thought", "  a deep")
        await screen.press("ctrl+o")
        await screen.until(lambda: "deep" not in "\n".join(screen.rows))

    on_screen(steps, thinks)


def test_a_click_opens_a_thought() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("why?")
        await screen.shows("so it is")
        row = next(index for index, text in enumerate(screen.rows) if "Thought" in text)
        await screen.pilot.click(offset=(5, row))
        await screen.shows("  a deep")
        assert screen.app.focused is screen.editor

    on_screen(steps, thinks)


def test_f1_lists_the_keys_and_ctrl_l_draws_again() -> None:
    async def steps(screen: Screen) -> None:
        await screen.press("f1")
        await screen.shows("Ctrl+X", "PgUp, PgDn")
        await screen.press("ctrl+l")
        await screen.shows("Ctrl+X")

    on_screen(steps, size=(80, 40))


def test_leaving_asks_where_a_session_is_not_saved() -> None:
    async def steps(screen: Screen) -> None:
        screen.commands.is_unsaved = True
        await screen.press("ctrl+d")
        await screen.shows("Save current session?")
        await screen.pilot.pause(0.6)
        await screen.press("y")
        await screen.until(lambda: screen.commands.confirmations == [True])

    on_screen(steps)


def test_pasted_text_is_cleaned_and_not_sent() -> None:
    async def steps(screen: Screen) -> None:
        from textual.events import Paste

        screen.editor.post_message(Paste("one\r\ntwo\x1b[31m\x07\rthree"))
        await screen.until(lambda: screen.editor.text == "one\ntwo␛[31m␇\nthree")
        assert screen.agent.heard == []

    on_screen(steps)


def test_a_paste_that_is_too_long_is_refused() -> None:
    async def steps(screen: Screen) -> None:
        from textual.events import Paste

        screen.editor.post_message(Paste("x" * 300_000))
        await screen.shows("too long")
        assert screen.editor.text == ""

    on_screen(steps)


def test_the_agent_is_closed_when_the_screen_is_gone() -> None:
    async def steps(screen: Screen) -> None:
        await screen.send("begin")

    cockpit = on_screen(steps, cockpit=FakeCockpit((busy,)))
    assert cockpit.agent is not None
    assert cockpit.agent.is_closed


def _wheel(screen: Screen):  # type: ignore[no-untyped-def]
    from textual.events import MouseScrollUp

    return MouseScrollUp(screen.view, 5, 5, 0, 0, 0, False, False, False, 5, 5)
