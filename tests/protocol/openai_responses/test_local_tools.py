"""Tools and tool choices under our own policy: custom tools, namespaces, searches, several allowed ones."""

import json
from typing import Any

import pytest

from protocol.openai_responses.bodies import Body, call, converted, custom, function, namespace, output, user
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage
from whitedwarf.conversation.options import ConstraintKind
from whitedwarf.conversation.tools import ToolCall, ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest

V4, V41 = ModelVersion.V4, ModelVersion.V41
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools."}


def tools_of(*tools: Body, version: ModelVersion = V41, **more: Any) -> tuple[ToolDefinition, ...]:
    return converted(user(), version=version, tools=list(tools), **more).conversation.tools


def names_of(tools: tuple[ToolDefinition, ...]) -> list[str]:
    return [tool.name for tool in tools]


def searched(*tools: Body, call_id: str = "s") -> list[Body]:
    return [
        {"type": "tool_search_call", "call_id": call_id, "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": call_id, "execution": "client", "tools": list(tools)},
    ]


def test_a_custom_tool_is_a_function_of_one_input_that_tells_its_grammar() -> None:
    (tool,) = tools_of(custom("greet", description="Says a word.", format=GRAMMAR))
    assert tool.name == "greet"
    assert tool.description is not None
    assert tool.description.startswith("Says a word.")
    assert "lark" in tool.description
    assert "start: WORD" in tool.description
    assert isinstance(tool.parameters, dict)
    assert tool.parameters["required"] == ["input"]


def test_custom_tools_are_named_for_the_answer_also_in_namespaces() -> None:
    tools = [custom("greet"), function("f"), namespace("db", custom("sql"), function("list"))]
    reply = converted(user(), tools=tools).reply
    assert reply.custom_tools == {"greet", "db::sql"}
    assert reply.namespaces == {"db::sql": ("db", "sql"), "db::list": ("db", "list")}


@pytest.mark.parametrize("version", [V4, V41])
def test_apply_patch_is_told_in_the_official_words(version: ModelVersion) -> None:  # demand.md P23
    (tool,) = tools_of(custom("apply_patch", description="FREEFORM", format=GRAMMAR), version=version)
    assert tool.description is not None
    assert tool.description.startswith("Use the `apply_patch` tool to edit files.")
    assert converted(user(), tools=[custom("apply_patch")], version=version).reply.custom_tools == {"apply_patch"}


def test_a_function_called_apply_patch_stays_a_function() -> None:
    found = converted(user(), tools=[function("apply_patch")])
    assert found.reply.custom_tools == frozenset()
    assert found.conversation.tools[0].description is None


def test_equal_tools_are_one_and_different_ones_of_a_name_are_refused() -> None:
    assert names_of(tools_of(function("f"), function("f"))) == ["f"]
    assert names_of(tools_of(namespace("n", function("f")), namespace("n", function("f"), function("g")))) == [
        *("n::f", "n::g")
    ]
    with pytest.raises(RefusedRequest, match="two different tools"):
        tools_of(function("f"), function("f", description="other"))


def test_members_that_differ_are_told_apart_by_a_number() -> None:
    tools = [namespace("n", function("f")), namespace("n", function("f", description="other"))]
    found = converted(user(), tools=tools)
    assert names_of(found.conversation.tools) == ["n::f", "n::f_1"]
    assert found.reply.namespaces == {"n::f": ("n", "f"), "n::f_1": ("n", "f")}


def test_a_member_never_takes_the_name_of_a_plain_tool() -> None:
    tools = [namespace("n", function("f")), function("n::f"), function("n::f_1")]
    assert names_of(tools_of(*tools)) == ["n::f_2", "n::f", "n::f_1"]


def test_strict_and_other_tools_go_together_and_are_told_as_given() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "title": "kept"}}}
    tools = tools_of(function("f", strict=True) | {"parameters": schema}, function("g"))
    assert tools[0].parameters == schema


def test_tools_are_taken_in_the_form_of_chat_too() -> None:
    nested = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    tools = tools_of(nested, {"type": "custom", "custom": {"name": "c"}}, {"name": "bare"})
    assert names_of(tools) == ["f", "c", "bare"]


def test_hosted_tools_are_left_out_and_told() -> None:
    hosted = {"type": "web_search", "external_web_access": True}
    found = converted(user(), tools=[hosted, function("f"), {"type": "tool_search", "execution": "server"}])
    assert names_of(found.conversation.tools) == ["f"]
    assert found.warnings == (
        "This server runs no tools itself: tools of type 'web_search' were left out.",
        "This server runs no tools itself: tools of type 'tool_search' were left out.",
    )


def test_a_tool_without_a_name_is_refused_with_its_place() -> None:
    with pytest.raises(MalformedRequest, match=r"tools\[1\]\.tools\[0\]\.name: expected a string, got null"):
        tools_of(function("f"), namespace("n", {"type": "function"}))


def test_additional_tools_in_the_input_are_declared_like_others() -> None:  # clients.md: gpt-6*
    added = {"type": "additional_tools", "role": "developer", "tools": [namespace("shell", function("exec"))]}
    found = converted(added, user(), added, tools=[function("f")])
    assert names_of(found.conversation.tools) == ["f", "shell::exec"]
    assert len(found.conversation.messages) == 1
    assert found.reply.namespaces == {"shell::exec": ("shell", "exec")}


@pytest.mark.parametrize("version", [V4, V41])
def test_a_search_that_the_client_runs_is_offered(version: ModelVersion) -> None:
    found = converted(user(), tools=[SEARCH], version=version)
    assert names_of(found.conversation.tools) == ["tool_search"]
    assert found.reply.searches_tools
    assert not converted(user(), tools=[function("tool_search")]).reply.searches_tools


def test_found_tools_become_known_where_they_were_found() -> None:
    found = converted(user(), *searched(namespace("n", function("f"))), tools=[SEARCH])
    *_, result, update = found.conversation.messages
    assert isinstance(result, ToolMessage)
    assert isinstance(update, SystemMessage)
    assert update.tools is not None
    assert names_of(update.tools) == ["n::f"]
    assert names_of(found.conversation.tools) == ["tool_search", "n::f"]
    assert found.reply.namespaces == {"n::f": ("n", "f")}


def test_v4_reads_of_found_tools_by_the_names_that_it_has_to_call() -> None:
    found = converted(user(), *searched(namespace("n", function("f"))), tools=[SEARCH], version=V4)
    result = found.conversation.messages[2]
    assert isinstance(result.content, str)
    assert json.loads(result.content)[0]["name"] == "n__f"
    assert found.constraint is not None
    assert "n__f" in found.constraint.schema


def test_a_tool_that_is_found_again_is_told_again_under_its_name() -> None:
    first = searched(namespace("n", function("f")))
    again = searched(namespace("n", function("f", description="new")), call_id="s2")
    found = converted(user(), *first, *again, tools=[SEARCH])
    updates = [message for message in found.conversation.messages if isinstance(message, SystemMessage)]
    assert [names_of(update.tools or ()) for update in updates] == [["n::f"], ["n::f"]]
    assert names_of(found.conversation.tools) == ["tool_search", "n::f"]
    prompt = encode(found.conversation, V41).rendered().text
    assert prompt.count('{"name": "n::f", "description": "new"') == 1


def test_found_custom_tools_are_answered_as_custom_calls() -> None:
    assert converted(user(), *searched(custom("sql")), tools=[SEARCH]).reply.custom_tools == {"sql"}


def test_a_search_result_without_an_id_answers_the_search() -> None:
    request, result = searched(function("f"))
    found = converted(user(), request | {"call_id": None, "id": "tsc"}, result | {"call_id": None}, tools=[SEARCH])
    assert [getattr(message, "call_id", None) for message in found.conversation.messages] == [None, None, "tsc", None]


@pytest.mark.parametrize("thinks", [False, True])
def test_a_tool_can_be_required_also_while_thinking(thinks: bool) -> None:
    found = converted(user(), tools=[function("f")], tool_choice="required", enable_thinking=thinks)
    assert found.constraint is not None
    assert found.constraint.kind is ConstraintKind.TOOL_CALL_REQUIRED
    assert (found.conversation.tool_choice is ToolChoice.REQUIRED) is not thinks


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "g", "namespace": "n"},
        {"type": "function", "name": "g"},
        {"type": "function", "name": "n::g"},
        {"type": "function", "function": {"name": "g"}},
        {"type": "custom", "name": "g"},
    ],
)
def test_a_tool_is_chosen_by_any_of_its_names(choice: Body) -> None:
    assert names_of(tools_of(function("f"), namespace("n", function("g")), tool_choice=choice)) == ["n::g"]


def test_some_tools_are_allowed() -> None:
    tools = [function("f"), function("g"), namespace("n", function("h"))]
    allowed = [{"type": "function", "name": "h"}, {"type": "function", "name": "f"}, {"type": "web_search"}]
    found = converted(user(), tools=tools, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": allowed})
    assert names_of(found.conversation.tools) == ["f", "n::h"]
    assert found.conversation.tool_choice is ToolChoice.AUTO
    assert "web_search" in found.warnings[0]


def test_no_tools_are_offered_where_none_may_be_called() -> None:  # demand.md P05
    without = converted(user())
    found = converted(user(), tools=[function("f")], tool_choice="none")
    assert encode(found.conversation, V41).segments == encode(without.conversation, V41).segments
    assert not found.parsing.parse_tool_calls


@pytest.mark.parametrize("choice", ["sometimes", 5, {"type": 5}, {"type": "allowed_tools", "mode": "x"}])
def test_a_choice_that_is_none_is_refused_with_what_is_possible(choice: Any) -> None:
    with pytest.raises(MalformedRequest, match=r"tool_choice.*: expected one of none, auto, required, any"):
        tools_of(function("f"), tool_choice=choice)


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(RefusedRequest, match="no function named 'zz'"):
        tools_of(function("f"), tool_choice={"type": "function", "name": "zz"})


def test_a_hosted_choice_is_ignored_and_told() -> None:
    found = converted(user(), tools=[function("f")], tool_choice={"type": "file_search"})
    assert found.conversation.tool_choice is ToolChoice.AUTO
    assert found.warnings == ("This server runs no tools itself: a choice of 'file_search' was ignored.",)


def test_names_that_a_prompt_could_not_hold_are_refused() -> None:
    with pytest.raises(RefusedRequest, match=r"tools\[0\]\.name"):
        tools_of(function('a"b'))
    assert names_of(tools_of(function("mcp.server/tool"))) == ["mcp.server/tool"]


def test_history_calls_of_tools_that_are_gone_are_kept() -> None:
    found = converted(user(), call("a", "gone", namespace="old"), output("a"), tools=[])
    assert found.conversation.messages[1] == AssistantMessage("", "", (ToolCall("a", "old::gone", "{}"),))
