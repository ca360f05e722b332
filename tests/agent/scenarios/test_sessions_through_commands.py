"""Sessions: begun, left, gone on with, stripped, deleted, after restarts; by slash commands, over a script."""

import pytest

from agent.scenarios.play import THINKING, Play, saw
from agent.scenarios.replies import THOUGHT_ENDS, call, calls, says, slowly
from whitedwarf.agent.approval import Consent, Policy, Question
from whitedwarf.agent.events import AnswerEnd, SessionChanged, ToolEnded
from whitedwarf.conversation.events import TextDelta

DONE = says("Done.")
LONG = "one two three four five six seven eight nine ten " * 20


def test_a_new_session_knows_nothing_of_the_old_one(play: Play) -> None:
    with play(says("I know it."), says("Which one?"), keeps=True) as scene:
        scene.user("The word is sesame.")
        assert scene.obeys("/new") == "a new session"
        scene.user("Which word?")
        assert "sesame" not in scene.told()
        assert scene.said == "I know it.Which one?"


def test_a_session_is_gone_on_with_after_a_restart_token_for_token(play: Play) -> None:
    with play(calls(call("list")), says("One file."), keeps=True, files={"a": ""}) as scene:
        scene.user("What is here?")
        session_id, kept = scene.session_id, scene.dialogue.ids.tolist()
    with play(says("As before."), keeps=True) as scene:
        text = scene.obeys(f"/switch {session_id[:6]}")
        assert "What is here?" in text
        assert "→ list()" in text
        assert scene.dialogue.ids.tolist() == kept
        scene.user("And now?")
        assert list(scene.engine.received[-1].ids)[: len(kept)] == kept
        assert scene.told().endswith("One file.<｜end▁of▁sentence｜><｜User｜>And now?<｜Assistant｜></think>")


def test_there_and_back_again_each_keeps_its_own(play: Play) -> None:
    with play(says("A1"), says("B1"), says("A2"), says("B2"), keeps=True) as scene:
        scene.user("first of A")
        a = scene.session_id
        scene.obeys("/new")
        scene.user("first of B")
        b = scene.session_id
        scene.obeys(f"/switch {a}")
        scene.user("second of A")
        assert "A1<｜end▁of▁sentence｜><｜User｜>second of A" in scene.told()
        assert "of B" not in scene.told()
        scene.obeys(f"/switch {b}")
        scene.user("second of B")
        assert "B1<｜end▁of▁sentence｜><｜User｜>second of B" in scene.told()
        assert [event.id for event in scene.of(SessionChanged) if event.id] == [a, b, a, b]


def test_a_stripped_session_is_read_again_and_goes_on(play: Play) -> None:
    with play(says("A1"), says("B1"), says("A2"), keeps=True) as scene:
        scene.user("first of A")
        a = scene.session_id
        scene.obeys("/new")
        scene.user("first of B")
        assert scene.obeys(f"/strip {a[:8]}") == f"stripped {a[:8]}"
        assert "stripped" in scene.obeys("/list")
        assert "read again" in scene.obeys(f"/switch {a}")
        scene.user("second of A")
        assert "A1<｜end▁of▁sentence｜><｜User｜>second of A" in scene.told()


def test_a_deleted_session_is_gone(play: Play) -> None:
    with play(DONE, keeps=True) as scene:
        scene.user("first of A")
        a = scene.session_id
        scene.obeys("/new")
        assert scene.obeys(f"/del {a}") == f"deleted {a[:8]}"
        assert f"there is no session {a}" in scene.refuses(f"/switch {a}")
        assert scene.obeys("/list") == "No sessions are saved yet."


def test_what_cannot_be_done_with_sessions_is_said(play_v4: Play) -> None:
    with play_v4(DONE, keeps=True) as scene:
        assert "nothing was said yet" in scene.refuses("/save")
        scene.user("first of A")
        a = scene.session_id
        for line, why in (
            ("/switch", "expected the id of a session"),
            ("/switch zz", "expected the first digits of a session's id"),
            (f"/switch {a}", "you are in it already"),
            (f"/del {a}", "begin another one with /new first"),
            (f"/strip {a}", "leave it with /new first"),
            ("/history 0", "expected a number from 1 to 200"),
            ("/history 201", "expected a number from 1 to 200"),
            ("/history many", "expected a whole number"),
            ("/power 50", "its power cannot be set"),
            ("/steer x.gguf", "cannot be steered from here"),
            ("/what", "there is no command /what"),
        ):
            assert why in scene.refuses(line), line


def test_the_history_shows_the_last_turns(play: Play) -> None:
    with play(says("Hm.", THOUGHT_ENDS, "A."), says("Hm.", THOUGHT_ENDS, "B."), keeps=True, settings=THINKING) as scene:
        scene.user("First?", "Second?")
        assert scene.obeys("/history 1") == "You:\nSecond?\n\nAgent:\nB."
        assert scene.obeys("/history") == "You:\nFirst?\n\nAgent:\nA.\n\nYou:\nSecond?\n\nAgent:\nB."


def test_while_it_works_sessions_are_not_changed_but_looked_at(play: Play) -> None:
    refused: list[str] = []
    with play(says(slowly(LONG), delay_ms=3), keeps=True) as scene:
        scene.agent.submit("Count.")
        scene.wait_for(saw(TextDelta, text="two"))
        for line in ("/new", "/switch 00", "/del 00", "/strip 00", "/history", "/quit", "/think"):
            refused.append(scene.refuses(line))
        assert "Count." in scene.commands.obey("/list").text
        assert scene.commands.obey("/save").text == "the session will be saved at the next safe point"
        scene.agent.interrupt()
        scene.wait()
        assert all("the agent is at work" in text for text in refused)
        assert any(notice.startswith("saved as") for notice in scene.notices)


@pytest.mark.parametrize("says_yes", [True, False])
def test_leaving_a_session_that_is_not_saved_asks(play: Play, says_yes: bool) -> None:
    with play(DONE, keeps=True, autosave=False) as scene:
        scene.says_yes = says_yes
        scene.user("first of A")
        scene.obeys("/new")
        assert scene.questions == ["Save the current session?"]
        assert ("first of A" in scene.obeys("/list")) is says_yes


def test_what_was_allowed_for_a_session_is_allowed_when_it_is_gone_on_with(play: Play) -> None:
    class Generous:
        asked = 0

        def ask(self, question: Question) -> Consent:
            self.asked += 1
            return Consent.SESSION

    write, somebody = calls(call("write", path="a.txt", content="x")), Generous()
    with play(write, DONE, keeps=True, policy=Policy(somebody)) as scene:
        scene.user("Write.")
        session_id = scene.session_id
    with play(write, DONE, write, DONE, keeps=True, policy=Policy(somebody)) as scene:
        assert "Remembered for its tools: write auto." in scene.obeys(f"/switch {session_id}")
        scene.user("Write it again.")
        assert somebody.asked == 1
        scene.obeys("/new")
        scene.user("And again.")
        assert somebody.asked == 2


def test_an_interrupted_session_goes_on_after_a_restart(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), keeps=True) as scene:
        scene.interrupts_when(saw(TextDelta, text="three"))
        scene.user("Count.")
        session_id = scene.session_id
    with play(DONE, keeps=True) as scene:
        scene.obeys(f"/switch {session_id}")
        scene.user("Go on.")
        assert "one two three" in scene.told()
        assert "<｜end▁of▁sentence｜><｜User｜>Go on." in scene.told()


def test_results_that_were_not_read_yet_are_not_lost_with_a_restart(play: Play) -> None:
    with play(calls(call("read", path="a", raw=True)), keeps=True, files={"a": "sesame"}) as scene:
        scene.interrupts_when(saw(ToolEnded))
        scene.user("Read.")
        session_id = scene.session_id
        assert scene.turns == [AnswerEnd.INTERRUPTED]
    with play(DONE, keeps=True) as scene:
        scene.obeys(f"/switch {session_id}")
        scene.user("What is the word?")
        assert "<tool_result>sesame</tool_result>" in scene.told()
        assert "What is the word?" in scene.told()


def test_a_file_that_is_damaged_is_told_and_nothing_changes(play_v4: Play) -> None:
    with play_v4(DONE, keeps=True) as scene:
        scene.user("first of A")
        a = scene.session_id
        scene.obeys("/new")
        path = scene.folder / "sessions" / f"{a}.kv"
        path.write_bytes(path.read_bytes()[:-20])
        before = scene.dialogue.ids.tolist()
        assert a in scene.refuses(f"/switch {a}")
        assert scene.dialogue.ids.tolist() == before
        assert "not usable" in scene.obeys("/list")
        scene.user("first of B")
        assert scene.turns == [AnswerEnd.DONE, AnswerEnd.DONE]


def test_thinking_is_switched_between_two_answers(play: Play) -> None:
    script = [says("Fast."), says("Hm.", THOUGHT_ENDS, "Slow."), says("Fast again.")]
    with play(*script, keeps=True) as scene:
        scene.user("One.")
        scene.obeys("/think")
        scene.user("Two.")
        scene.obeys("/nothink")
        scene.user("Three.")
        assert (scene.thought, scene.said) == ("Hm.", "Fast.Slow.Fast again.")
        assert scene.told(1).endswith("<｜Assistant｜><think>")


def test_two_agents_do_not_get_one_session(play_v4: Play) -> None:
    with play_v4(DONE, keeps=True) as scene:
        scene.user("first of A")
        scene.obeys("/save")
        with play_v4(DONE, keeps=True) as other:
            assert "is open in another process" in other.refuses(f"/switch {scene.session_id}")
