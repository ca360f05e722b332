"""Requests as Codex sends them (spec/clients.md 3), turn by turn, under our own policy."""

from typing import Any

import pytest

from protocol.openai_responses.bodies import Body, call, converted, custom, function, namespace, output, reasoning
from whitedwarf.conversation.message import AssistantMessage, ToolMessage
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.converted import Converted, ResponsesReply
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import local

V4, V41 = ModelVersion.V4, ModelVersion.V41
ARGUMENTS = '{"cmd":"echo  \\u00e9",  "yield_time_ms":1000}'


def text(role: str, words: str, number: int = 0) -> Body:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": f"msg_{number}", "role": role, "content": [{"type": kind, "text": words}]}


FIRST = [
    text("developer", "You are Codex.", 1),
    text("developer", "<skills_instructions>none</skills_instructions>", 2),
    text("user", "<environment_context>cwd</environment_context>", 3),
    text("user", "Run the tests.", 4),
]
TOOLS = [
    *(function(name, strict=False) for name in ("exec_command", "write_stdin", "view_image")),
    namespace("multi_agent_v1", function("spawn_agent", strict=False), function("wait", strict=False)),
    {"type": "web_search", "external_web_access": True},
]
TURN = [
    reasoning("I need a shell.\n") | {"id": "rs_1", "encrypted_content": None},
    text("assistant", "  I run them.\n", 5) | {"status": "completed", "phase": "commentary"},
    call("call_00_a", "exec_command", ARGUMENTS, id="fc_1"),
    output("call_00_a", "ok"),
]


def sent(items: list[Body], version: ModelVersion = V41, **more: Any) -> Converted[ResponsesReply]:
    body = {
        "model": "deepseek-v4-flash",
        "stream": True,
        "input": items,
        "tools": TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "thread",
        "client_metadata": {"x": "y"},
    }
    return convert(body | more, local(version))


def prompt_of(items: list[Body], version: ModelVersion = V41, **more: Any) -> str:
    return encode(sent(items, version, **more).conversation, version).rendered().text


def test_the_first_request_is_read_whole() -> None:
    found = sent(FIRST)
    assert found.is_streamed
    assert found.reply.summarizes
    assert [tool.name for tool in found.conversation.tools] == [
        *("exec_command", "write_stdin", "view_image"),
        *("multi_agent_v1::spawn_agent", "multi_agent_v1::wait"),
    ]
    assert found.reply.namespaces["multi_agent_v1::wait"] == ("multi_agent_v1", "wait")
    assert found.warnings == ("This server runs no tools itself: tools of type 'web_search' were left out.",)
    assert "store" in found.unknown_fields


@pytest.mark.parametrize("version", [V4, V41])
def test_the_next_request_begins_with_the_last_prompt_and_answer(version: ModelVersion) -> None:
    first, second = prompt_of(FIRST, version), prompt_of(FIRST + TURN, version)
    answered = f"{first}I need a shell.\n</think>  I run them.\n"
    assert second.startswith(answered)
    third = prompt_of([*FIRST, *TURN, text("user", "Again.", 6)], version)
    assert third.startswith(second[: second.rindex("<｜Assistant｜>")])


def test_ids_of_items_do_not_matter() -> None:
    renamed = [item | {"id": "other"} for item in FIRST + TURN]
    assert prompt_of(renamed) == prompt_of(FIRST + TURN)


def test_arguments_are_kept_to_the_byte() -> None:
    answer, result = sent(FIRST + TURN).conversation.messages[-2:]
    expected = AssistantMessage(
        "  I run them.\n", "I need a shell.\n", (ToolCall("call_00_a", "exec_command", ARGUMENTS),)
    )
    assert answer == expected
    assert result == ToolMessage("ok", "call_00_a")


def test_reasoning_is_the_same_told_as_summary_or_as_text() -> None:
    summary = [{"type": "summary_text", "text": "I need a shell.\n"}]
    told = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "zz"}
    assert prompt_of([*FIRST, told, *TURN[1:]]) == prompt_of(FIRST + TURN)


def test_parallel_calls_are_one_turn() -> None:
    turn = [call("call_00_a", "exec_command"), call("call_01_b", "write_stdin")]
    results = [output("call_00_a", "1"), output("call_01_b", "2")]
    answer, *rest = sent(FIRST + turn + results).conversation.messages[-3:]
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls is not None
    assert [one.name for one in answer.tool_calls] == ["exec_command", "write_stdin"]
    assert rest == [ToolMessage("1", "call_00_a"), ToolMessage("2", "call_01_b")]


def test_a_namespaced_call_comes_back_under_the_models_name() -> None:
    turn = [call("call_00_a", "spawn_agent", namespace="multi_agent_v1"), output("call_00_a")]
    assert 'invoke name="multi_agent_v1::spawn_agent"' in prompt_of(FIRST + turn)
    assert 'invoke name="multi_agent_v1__spawn_agent"' in prompt_of(FIRST + turn, V4)


def test_an_image_that_was_looked_at_is_in_the_result() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    turn = [call("call_00_a", "view_image"), output("call_00_a", [image])]
    found = sent(FIRST + turn).conversation
    assert len(encode(found, V41).images) == 1
    assert "[Unsupported Image]" in prompt_of(FIRST + turn, V4)


def test_a_patch_is_a_custom_call_both_ways() -> None:  # demand.md P23
    tools = [custom("apply_patch", format={"type": "grammar", "syntax": "lark", "definition": "start: x"})]
    patch = "*** Begin Patch\n*** End Patch\n"
    turn = [
        {
            "type": "custom_tool_call",
            "call_id": "call_00_a",
            "name": "apply_patch",
            "input": patch,
            "status": "completed",
        },
        {"type": "custom_tool_call_output", "call_id": "call_00_a", "output": "Success."},
    ]
    found = sent(FIRST + turn, tools=tools)
    assert found.reply.custom_tools == {"apply_patch"}
    assert found.warnings == ()
    assert f'name="input" string="true">{patch}</' in prompt_of(FIRST + turn, tools=tools)


def test_tools_may_come_as_an_item() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": TOOLS}
    body = {"input": [added, *FIRST], "model": "gpt-6"}
    found = convert(body, local(V41))
    assert found.conversation == sent(FIRST, reasoning=None).conversation
    assert "multi_agent_v1::wait" in found.reply.namespaces


def test_a_compaction_is_an_ordinary_request_without_tools() -> None:
    ask = text("user", "You are performing a CONTEXT CHECKPOINT COMPACTION", 7)
    found = sent([*FIRST, *TURN, ask], tools=[])
    assert found.conversation.tools == ()
    assert found.conversation.messages[:-1] == sent(FIRST + TURN).conversation.messages


def test_a_title_is_asked_for_with_a_schema() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    form = {"type": "json_schema", "name": "title", "strict": True, "schema": schema}
    found = sent(FIRST, tools=[], text={"format": form, "verbosity": "low"})
    assert found.conversation.response_format == JsonSchema(schema)
    assert found.reply.echo["text"] == {"format": form | {"description": None}, "verbosity": "low"}


def test_an_interrupted_turn_can_be_gone_on_from() -> None:
    cut = [*FIRST, TURN[0], TURN[2], text("user", "Stop that.", 8)]
    found = converted(*cut).conversation.messages
    assert found[-2] == AssistantMessage("", "I need a shell.\n", (ToolCall("call_00_a", "exec_command", ARGUMENTS),))
