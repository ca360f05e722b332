"""The agent's turns: answers and tools by turns, the queue, interruptions, and what does not fit."""

from agent.scripted_agent import Echo, block, call, scripted, stage
from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.conversation.events import TextDelta
from whitedwarf.prompt.tokenizer import Tokenizer


def test_a_turn_goes_on_until_an_answer_calls_no_tool(tokenizer: Tokenizer) -> None:
    answers = [
        scripted(tokenizer, "Let me see.", *block(call("echo", text="one"), call("echo", text="two"))),
        scripted(tokenizer, *block(call("echo", text="three"))),
        scripted(tokenizer, "Done."),
    ]
    echo = Echo()
    with stage(tokenizer, *answers, tools=[echo]) as on:
        on.says("Go.")
        assert [arguments["text"] for arguments in echo.ran] == ["one", "two", "three"]
        assert [event.end for event in on.ear.of(AnswerEnded)] == [AnswerEnd.CALLS, AnswerEnd.CALLS, AnswerEnd.DONE]
        assert "".join(event.text for event in on.ear.of(TextDelta)) == "Let me see.Done."
        assert [event.text for event in on.ear.of(ToolEnded)] == ["heard one", "heard two", "heard three"]
        assert [event.index for event in on.ear.of(ToolBegan)] == [0, 1, 0]
        assert [event.text for event in on.ear.of(TurnBegan)] == ["Go."]
        assert [event.end for event in on.ear.of(TurnEnded)] == [AnswerEnd.DONE]
        assert "<tool_result>heard one</tool_result>\n\n<tool_result>heard two</tool_result>" in on.prompt(tokenizer)
        assert on.ear.threads == {"whitedwarf-agent"}
