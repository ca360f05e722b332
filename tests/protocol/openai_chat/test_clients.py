"""Bodies in the shapes that opencode and pi were seen to send (spec/clients.md 3), and what becomes of them."""

from typing import Any

import pytest

from protocol.openai_chat.chat_bodies import RUN
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import local

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command.",
        "parameters": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}
LS = '{"command":"ls"}'
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def tool_turn(content: Any, reasoning: str) -> list[dict[str, Any]]:
    call = {"id": "call_00_a", "type": "function", "function": {"name": "bash", "arguments": LS}}
    return [
        {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_00_a", "content": "README.md"},
    ]


def opencode() -> dict[str, Any]:
    return {
        "model": "deepseek-v4-flash",
        "max_tokens": 32000,
        "messages": [
            {"role": "system", "content": "You are opencode."},
            {"role": "user", "content": '"Run ls"'},
            *tool_turn("", ""),
        ],
        "tools": [BASH, RUN],
        "tool_choice": "auto",
        **STREAM,
    }


def pi() -> dict[str, Any]:
    return {
        "model": "deepseek-v4-flash",
        "messages": [
            {"role": "system", "content": "You are pi."},
            {"role": "user", "content": [{"type": "text", "text": "Run ls"}]},
            *tool_turn(None, "I should run it."),
        ],
        "tools": [BASH],
        "max_tokens": 32000,
        "thinking": {"type": "enabled"},
        "reasoning_effort": "medium",
        **STREAM,
    }


@pytest.mark.parametrize("version", ModelVersion)
def test_opencode_is_understood(version: ModelVersion) -> None:
    made = convert(opencode(), local(version))
    assert made.conversation.messages == (
        SystemMessage("You are opencode."),
        UserMessage('"Run ls"'),
        AssistantMessage("", "", (ToolCall("call_00_a", "bash", LS),)),
        ToolMessage("README.md", "call_00_a"),
    )
    assert made.conversation.tool_choice is ToolChoice.AUTO
    assert made.conversation.tools[0].parameters == BASH["function"]["parameters"]  # type: ignore[index]
    assert (made.is_streamed, made.reply.usage_chunk, made.inference.max_tokens) == (True, True, 32000)
    assert (made.warnings, made.unknown_fields) == ((), ())


def test_opencode_s_request_for_a_title_has_two_questions_in_a_row() -> None:
    questions = [{"role": "user", "content": text} for text in ("Generate a title:", '"Run ls"')]
    body = opencode() | {"messages": questions}
    del body["tools"], body["tool_choice"]
    made = convert(body, local(ModelVersion.V4))
    assert made.conversation.messages == (UserMessage("Generate a title:"), UserMessage('"Run ls"'))


@pytest.mark.parametrize("version", ModelVersion)
def test_pi_is_understood(version: ModelVersion) -> None:
    made = convert(pi(), local(version))
    assert made.conversation.messages == (
        SystemMessage("You are pi."),
        UserMessage("Run ls"),
        AssistantMessage("", "I should run it.", (ToolCall("call_00_a", "bash", LS),)),
        ToolMessage("README.md", "call_00_a"),
    )
    assert made.conversation.is_thinking
    assert made.conversation.reasoning_effort is ReasoningEffort.HIGH
    assert (made.warnings, made.unknown_fields) == ((), ())
