"""Which earlier answers may come back without their reasoning."""

from contextlib import nullcontext

import deepseek_recipe as recipe
import pytest

from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.missing_reasoning import check_reasoning, with_reasoning

ASKED = UserMessage("hi")
CALLED = AssistantMessage("", tool_calls=(ToolCall("c1", "f", "{}"),))
ANSWERED = ToolMessage("done", "c1")


@pytest.mark.parametrize(
    ("messages", "has_tools", "is_refused"),
    [
        ([ASKED, CALLED, ANSWERED], False, True),
        ([ASKED, CALLED, ANSWERED, SystemMessage("x")], False, True),
        ([ASKED, CALLED, ANSWERED, ASKED], True, False),
        ([ASKED, AssistantMessage("x")], True, True),
        ([ASKED, AssistantMessage("x")], False, False),
        ([ASKED, AssistantMessage("x", "")], True, False),
        ([CALLED], False, True),
        ([], True, False),
    ],
)
def test_answers_to_the_last_user_message_need_reasoning_where_tools_are(
    messages: list[Message], has_tools: bool, is_refused: bool
) -> None:
    with pytest.raises(RefusedRequest, match="`thinking`") if is_refused else nullcontext():
        check_reasoning(messages, "thinking", has_tools=has_tools)


def is_let_through(call_id: str) -> bool:
    try:
        check_reasoning([AssistantMessage("", tool_calls=(ToolCall(call_id, "f", "{}"),))], "x", has_tools=False)
    except RefusedRequest:
        return False
    return True


def is_officially_let_through(call_id: str) -> bool:
    call = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    messages = [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id}]},
    ]
    request = recipe.MessagesRequest({"model": "DeepSeek-V4-Pro", "messages": messages})
    reject = recipe.ReasoningContentBehavior.Reject
    try:
        request.convert(recipe.ConversionOptions(reasoning_content_behavior=reject))
    except recipe.ConversionError:
        return False
    return True


@pytest.mark.parametrize(
    "call_id",
    [
        *("x" * place + "ET_" + "y" * rest for place in range(12) for rest in (0, 1, 24)),
        *("call_00_ET_abc", "call_00_et_abc", "CALL_00_ET_", "call_\n\n_ET_", "call_é_ET_", "call_00_ET_é", ""),
    ],
)
def test_an_id_tells_that_nothing_was_thought_as_it_does_officially(call_id: str) -> None:
    assert is_let_through(call_id) == is_officially_let_through(call_id)


def test_missing_reasoning_is_empty_while_thinking_and_all_is_dropped_otherwise() -> None:
    history = [ASKED, AssistantMessage("a"), AssistantMessage("b", "thought")]
    assert with_reasoning(history, is_thinking=True) == (
        ASKED,
        AssistantMessage("a", ""),
        AssistantMessage("b", "thought"),
    )
    assert with_reasoning(history, is_thinking=False) == (ASKED, AssistantMessage("a"), AssistantMessage("b"))
