"""Tools as requests declare them: official strictness, local tolerance."""

from typing import Any

import pytest

from protocol.official_errors import tools_error
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.policy import OFFICIAL, Policy, local
from whitedwarf.protocol.tool_definitions import (
    DeclaredTool,
    check_strictness,
    check_tool_name,
    tool_definition,
    tool_definitions,
)

LOCAL = local(ModelVersion.V41)
PATH = "tools[0].function.name"


def refusal(policy: Policy, *functions: dict[str, Any]) -> str | None:
    """Why these functions are refused."""
    try:
        for index, function in enumerate(functions):
            check_tool_name(function["name"], f"tools[{index}].function.name", policy)
        check_strictness(tool_definitions([DeclaredTool(**function) for function in functions], policy), policy)
    except RefusedRequest as error:
        return str(error)
    return None


BAD = {"name": "bad", "parameters": {"type": 5}}
GOOD = {"name": "good", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    "functions",
    [
        [GOOD, {"name": "a-Z_09"}],
        [{"name": "f" * 128}],
        [{"name": ""}],
        [{"name": "f" * 129}],
        [{"name": "é" * 65}],
        [{"name": "é"}],
        [{"name": "f\n"}],
        [GOOD, GOOD],
        [GOOD, GOOD, BAD],
        [BAD, GOOD, GOOD],
        [{"name": "f", "parameters": {}}],
        [{"name": "f", "parameters": True}],
        [{"name": "f", "parameters": []}],
        [{"name": "f", "parameters": {"type": ["object"]}}],
        [{"name": "f", "parameters": {"type": "string", "minimum": "x"}}],
        [{"name": "f", "strict": True}, GOOD],
        [{"name": "f", "strict": True}, {"name": "g", "strict": True}],
        [{"name": "f", "strict": False}, GOOD],
        [{"name": "f", "strict": True, "parameters": 5}],
        [{"name": "f", "strict": True}, BAD],
    ],
)
def test_tools_are_refused_in_the_official_words(functions: list[dict[str, Any]]) -> None:
    assert refusal(OFFICIAL, *functions) == tools_error(*functions)


def test_a_name_is_refused_with_the_place_where_it_stands() -> None:
    with pytest.raises(RefusedRequest, match=r"^Invalid 'tools\[3\].name': empty string"):
        check_tool_name("", "tools[3].name", OFFICIAL)


def test_absent_parameters_are_an_empty_schema() -> None:
    assert tool_definition("f", None, None, None, OFFICIAL).parameters == {}
    assert tool_definition("f", None, None, None, LOCAL).parameters == {}


def test_where_a_schema_is_required_its_absence_is_refused() -> None:
    with pytest.raises(RefusedRequest) as caught:
        tool_definition("f", None, None, None, OFFICIAL, is_schema_required=True)
    assert str(caught.value) == 'Invalid schema for function \'f\': null is not of types "boolean", "object"'


def test_a_strict_tool_is_defined_by_its_strict_form() -> None:
    tool = tool_definition("f", "what it does", {"type": "object"}, True, OFFICIAL, is_deferred=True)
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    assert (tool.description, tool.is_strict, tool.is_deferred) == ("what it does", True, True)


def test_a_name_is_unique_among_earlier_tools_too() -> None:
    earlier = tool_definitions([DeclaredTool("f")], OFFICIAL)
    with pytest.raises(RefusedRequest, match=r"^Tool names must be unique\.$"):
        tool_definitions([DeclaredTool("f")], OFFICIAL, earlier)


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": 5}, {"$ref": "http://x/y"}, {"pattern": "("}])
def test_locally_any_object_is_a_schema_and_stays_as_it_is(schema: dict[str, Any]) -> None:
    for is_strict in (None, False, True):
        assert tool_definition("f", None, schema, is_strict, LOCAL).parameters == schema


@pytest.mark.parametrize(("schema", "shown"), [(True, "boolean `true`"), ([], "sequence"), ("{}", 'string "{}"')])
def test_locally_a_schema_that_is_no_object_is_refused(schema: Any, shown: str) -> None:
    assert refusal(LOCAL, {"name": "f", "parameters": schema}) == (
        f"Invalid schema for function 'f': expected a JSON object, got {shown}. "
        "Give a JSON Schema of the arguments, or leave it out."
    )


def test_locally_equal_tools_are_one_and_the_first_stays() -> None:
    tools = tool_definitions([DeclaredTool("f", "d"), DeclaredTool("g"), DeclaredTool("f", "d", {})], LOCAL)
    assert [tool.name for tool in tools] == ["f", "g"]


def test_locally_different_tools_of_one_name_are_refused() -> None:
    message = refusal(LOCAL, {"name": "f", "description": "a"}, {"name": "f", "description": "b"})
    assert message == ("Tool names must be unique, but two different tools are called 'f'. Leave one out or rename it.")


def test_locally_one_and_true_are_different_schemas() -> None:
    one, true = ({"name": "f", "parameters": {"const": value}} for value in (1, True))
    assert str(refusal(LOCAL, one, true)).startswith("Tool names must be unique")


def test_locally_strict_tools_stand_beside_others() -> None:
    assert refusal(LOCAL, {"name": "f", "strict": True}, GOOD) is None


@pytest.mark.parametrize("name", ["mcp.server/tool", "ns::f", "é", "two words", "x" * 256])
def test_locally_a_name_is_nearly_any_text(name: str) -> None:
    assert refusal(LOCAL, {"name": name}) is None


@pytest.mark.parametrize("name", ["", "a\nb", 'a"b', "a<b", "a>b", "\x7f", "x" * 257])
def test_locally_a_name_cannot_break_the_markup_of_calls(name: str) -> None:
    assert str(refusal(LOCAL, {"name": name})).startswith(f"Invalid '{PATH}': a tool's name has 1 to 256 characters")
