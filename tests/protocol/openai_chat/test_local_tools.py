"""Tools and tool choices as real clients write them, under the local policy (spec/demand.md P05)."""

from typing import Any

import pytest

from protocol.openai_chat.chat_bodies import ASK, RUN, call, calls, converted, prompt_of, result
from whitedwarf.conversation.options import ConstraintKind
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest

SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}}
PICK = {"type": "function", "function": {"name": "pick"}}
NAMED_RUN = {"type": "function", "function": {"name": "run"}}


def names(**options: Any) -> list[str]:
    return [tool.name for tool in converted(**options).conversation.tools]


def choice(**options: Any) -> tuple[ToolChoice, ConstraintKind | None]:
    made = converted(**options)
    return made.conversation.tool_choice, None if made.constraint is None else made.constraint.kind


@pytest.mark.parametrize("version", ModelVersion)
def test_no_tools_are_shown_where_none_may_be_called(version: ModelVersion) -> None:
    without = prompt_of(version=version)
    assert prompt_of(version=version, tools=[RUN, PICK], tool_choice="none") == without
    made = converted(version=version, tools=[RUN, PICK], tool_choice="none")
    assert not made.parsing.parse_tool_calls
    assert made.constraint is None


def test_a_function_may_come_in_any_wrapping() -> None:
    expected = ToolDefinition("run", "Runs.", SCHEMA)
    for tool in (
        RUN,
        {"function": RUN["function"]},
        RUN["function"],
        {"type": "function", "name": "run", "description": "Runs.", "parameters": SCHEMA},
        {"name": "run", "description": "Runs.", "input_schema": SCHEMA},
        {"type": "custom", "name": "run", "description": "Runs.", "input_schema": SCHEMA},
    ):
        assert converted(tools=[tool]).conversation.tools == (expected,)
    assert converted(functions=[RUN["function"]]).conversation.tools == (expected,)


def test_a_custom_tool_takes_one_text() -> None:
    custom = {"type": "custom", "custom": {"name": "patch", "description": "Patches."}}
    made = converted(tools=[custom, RUN])
    (patch, _) = made.conversation.tools
    assert patch.description == "Patches."
    assert patch.parameters == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert made.reply.custom_tools == {"patch"}


def test_the_grammar_of_a_custom_tool_is_told_to_the_model() -> None:
    grammar = {"syntax": "lark", "definition": 'start: "a"'}
    for form in ({"type": "grammar", "grammar": grammar}, {"type": "grammar", **grammar}):
        (tool,) = converted(tools=[{"type": "custom", "custom": {"name": "p", "format": form}}]).conversation.tools
        assert tool.description == '`input` must follow this lark grammar:\nstart: "a"'
    text = {"name": "p", "description": "d", "format": {"type": "text"}}
    assert converted(tools=[{"type": "custom", "custom": text}]).conversation.tools[0].description == "d"


def test_tools_that_the_server_would_have_to_run_are_left_out_and_told() -> None:
    made = converted(tools=[{"type": "web_search"}, RUN], tool_choice={"type": "web_search"})
    assert [tool.name for tool in made.conversation.tools] == ["run"]
    assert made.conversation.tool_choice is ToolChoice.AUTO
    assert made.warnings == (
        "This server runs no tools itself: a choice of 'web_search' was ignored.",
        "This server runs no tools itself: tools of type 'web_search' were left out.",
    )


def test_strict_tools_are_shown_as_they_came_and_go_with_others() -> None:
    strict = {"type": "function", "function": {"name": "s", "strict": True, "parameters": {"title": "T"}}}
    made = converted(tools=[strict, RUN], response_format={"type": "text"})
    assert made.conversation.tools[0] == ToolDefinition("s", None, {"title": "T"}, True)


def test_equal_tools_are_one_and_different_ones_of_a_name_are_refused() -> None:
    assert names(tools=[RUN, RUN]) == ["run"]
    with pytest.raises(RefusedRequest):
        converted(tools=[RUN, NAMED_RUN])


def test_a_model_that_thinks_may_be_made_to_call() -> None:
    for wanted in ("required", "any", {"type": "any"}, NAMED_RUN, {"type": "function", "name": "run"}):
        assert choice(tools=[RUN], tool_choice=wanted) == (ToolChoice.AUTO, ConstraintKind.TOOL_CALL_REQUIRED)
    assert not converted(tools=[RUN], tool_choice="required").parsing.starts_in_tool_calls


def test_a_model_that_does_not_think_begins_with_the_call() -> None:
    made = converted(tools=[RUN, PICK], tool_choice=NAMED_RUN, thinking=False)
    assert made.conversation.tool_choice is ToolChoice.REQUIRED
    assert [tool.name for tool in made.conversation.tools] == ["run"]
    assert made.parsing.starts_in_tool_calls


def test_a_choice_without_tools_is_no_choice() -> None:
    assert choice(tool_choice="required") == (ToolChoice.AUTO, None)


def test_the_older_form_of_the_choice_is_understood() -> None:
    functions = [RUN["function"], PICK["function"]]
    assert names(functions=functions, function_call="none") == []
    assert names(functions=functions, function_call={"name": "pick"}) == ["pick"]


def test_a_choice_may_allow_some_of_the_tools() -> None:
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED_RUN]}}
    assert names(tools=[RUN, PICK], tool_choice=allowed) == ["run"]
    assert choice(tools=[RUN, PICK], tool_choice=allowed) == (ToolChoice.AUTO, ConstraintKind.TOOL_CALL_REQUIRED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": 5}, "tools: expected a list, got 5"),
        ({"tools": [5]}, "tools[0]: expected an object, got 5"),
        ({"tools": [{"type": "function"}]}, "tools[0]: invalid type: null, expected a string"),
        ({"tools": [{"type": "function", "function": 5}]}, "tools[0]: invalid type: integer `5`, expected struct"),
        ({"tools": [{"type": "custom", "custom": 5}]}, "tools[0].custom: expected an object, got 5"),
        ({"tool_choice": 5}, "tool_choice: expected one of none, auto, required, any or an object that names a tool"),
        ({"tool_choice": "some"}, "tool_choice: expected one of none, auto, required, any or"),
        ({"tool_choice": {"type": "function"}}, "tool_choice: expected the name of a tool, got null"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools: expected an object with a mode"),
    ],
    ids=str,
)
def test_what_is_no_tool_or_choice_is_refused_with_its_place(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        converted(**options)
    assert str(caught.value).startswith(message)


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(RefusedRequest, match="no function named 'zz'"):
        converted(tools=[RUN], tool_choice={"type": "function", "function": {"name": "zz"}})


def test_tools_may_be_gone_while_their_calls_are_still_in_the_history() -> None:
    assert "ls" in prompt_of(ASK, calls(call("c1")), result("c1"))
