"""Words that the user writes while the agent works."""

from agent.scenarios.play import Play, saw
from agent.scenarios.replies import call, calls, says, slowly
from agent.scripted_agent import Echo
from whitedwarf.agent.events import AnswerEnd, ToolBegan, ToolEnded, TurnBegan
from whitedwarf.conversation.events import TextDelta

DONE = says("Done.")


def test_one_message_comes_behind_the_tools_results_and_no_tool_is_left_out(play: Play) -> None:
    echo = Echo()
    with play(calls(call("echo", text="1"), call("echo", text="2")), DONE, tools=[echo]) as scene:
        scene.says_when(saw(ToolBegan), "Also three.")
        scene.user("Echo.")
        assert len(echo.ran) == 2
        assert scene.users_words == ["Echo.", "Also three."]
        assert scene.turns == [AnswerEnd.DONE]
        assert "<tool_result>heard 2</tool_result>\n\nAlso three.<｜Assistant｜>" in scene.told()


def test_several_messages_are_one_with_numbered_headings(play: Play) -> None:
    with play(calls(call("list")), DONE) as scene:
        scene.says_when(saw(ToolBegan), "Also three.", "And four.")
        scene.user("List.")
        merged = "## Message 1\n\nAlso three.\n\n## Message 2\n\nAnd four."
        assert scene.users_words == ["List.", merged]
        assert merged in scene.told()


def test_messages_during_the_last_answer_are_the_next_turn(play: Play) -> None:
    with play(says(slowly("one two three four"), delay_ms=3), DONE) as scene:
        scene.says_when(saw(TextDelta, text="one"), "And then?", "And then?")
        scene.user("Count.")
        assert scene.users_words == ["Count.", "## Message 1\n\nAnd then?\n\n## Message 2\n\nAnd then?"]
        assert scene.turns == [AnswerEnd.DONE, AnswerEnd.DONE]


def test_messages_during_a_faulty_answer_come_behind_what_was_wrong_with_it(play: Play) -> None:
    with play(says(slowly("Let me"), "\n\n", {"special": "｜DSML｜"}, 'invoke name="x', delay_ms=2), DONE) as scene:
        scene.says_when(saw(TextDelta), "Wait.")
        scene.user("Do it.")
        assert scene.users_words == ["Do it.", "Wait."]


def test_the_oldest_message_can_be_taken_back(play: Play) -> None:
    taken: list[str | None] = []
    with play(calls(call("list")), DONE) as scene:
        scene.says_when(saw(ToolBegan), "Also three.", "And four.")
        scene.when(saw(ToolEnded), lambda: taken.append(scene.agent.take_queued()))
        scene.user("List.")
        assert taken == ["Also three."]
        assert scene.users_words == ["List.", "And four."]
        assert scene.agent.take_queued() is None


def test_a_message_that_is_written_in_the_moment_a_turn_begins_is_not_lost(play: Play) -> None:
    with play(DONE) as scene:
        scene.says_when(saw(TurnBegan, text="One."), "Two.")
        scene.user("One.")
        assert scene.users_words == ["One.", "Two."]
        assert len(scene.engine.received) == 2
