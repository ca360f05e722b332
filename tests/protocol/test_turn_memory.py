"""Results that come alone, and the conversations that they belong to."""

import pytest

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.protocol.turn_memory import LostTurn, TurnMemory

TOOLS = (ToolDefinition("run"),)
ASKED = Conversation((SystemMessage("Be."), UserMessage("Look.")), tools=TOOLS)
SAID = AssistantMessage("", "Hm.", (ToolCall("a", "run", "{}"), ToolCall("b", "run", "{}")))
RESULTS = ToolMessage("1", "a"), ToolMessage("2", "b")


@pytest.fixture
def memory() -> TurnMemory:
    memory = TurnMemory(max_turns=2, max_bytes=1000)
    memory.remember(ASKED, SAID, 100)
    return memory


def test_results_alone_go_on_with_their_conversation(memory: TurnMemory) -> None:
    found = memory.completed(Conversation(RESULTS))
    assert found.messages == (*ASKED.messages, SAID, *RESULTS)
    assert found.tools == TOOLS


def test_what_the_request_says_anew_counts(memory: TurnMemory) -> None:
    other = (ToolDefinition("walk"),)
    found = memory.completed(Conversation((SystemMessage("Be brief."), *RESULTS), tools=other, is_thinking=False))
    assert found.messages == (SystemMessage("Be brief."), UserMessage("Look."), SAID, *RESULTS)
    assert (found.tools, found.is_thinking) == (other, False)


def test_a_conversation_with_its_history_is_left_alone(memory: TurnMemory) -> None:
    whole = Conversation((UserMessage("Look."), *RESULTS))
    assert memory.completed(whole) is whole
    assert memory.completed(ASKED) is ASKED


@pytest.mark.parametrize("results", [RESULTS[:1], (*RESULTS, ToolMessage("3", "c")), (ToolMessage("1"),)])
def test_results_of_other_calls_belong_to_nothing(memory: TurnMemory, results: tuple[ToolMessage, ...]) -> None:
    with pytest.raises(LostTurn, match="send the full history again"):
        memory.completed(Conversation(results))


def test_the_oldest_turn_is_forgotten(memory: TurnMemory) -> None:
    for name in ("x", "y"):
        memory.remember(ASKED, AssistantMessage("", None, (ToolCall(name, "run", "{}"),)), 100)
    memory.remember(ASKED, AssistantMessage("No call."), 100)
    with pytest.raises(LostTurn):
        memory.completed(Conversation(RESULTS))
    assert memory.completed(Conversation((ToolMessage("1", "y"),))).messages[-1] == ToolMessage("1", "y")


def test_long_turns_leave_less_room(memory: TurnMemory) -> None:
    memory.remember(ASKED, AssistantMessage("", None, (ToolCall("x", "run", "{}"),)), 950)
    with pytest.raises(LostTurn):
        memory.completed(Conversation(RESULTS))
    assert memory.completed(Conversation((ToolMessage("1", "x"),))).messages[-1] == ToolMessage("1", "x")
    memory.remember(ASKED, SAID, 1001)  # more than all of it
    with pytest.raises(LostTurn):
        memory.completed(Conversation(RESULTS))
