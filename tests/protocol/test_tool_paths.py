"""What is wrong with a tool's schema is told with the way to it that its client wrote."""

from typing import Any

import pytest

from protocol.scripted_dialects import Script
from whitedwarf.errors import RequestError
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.form_guide import enforced_form, offered_calls
from whitedwarf.protocol.input_forms import input_forms
from whitedwarf.protocol.tool_paths import tool_paths

SCHEMA: Any = {"type": "object", "properties": {"n": {"type": "string", "pattern": "(?=a)"}}, "required": ["n"]}
FIRST: Any = {"type": "object", "properties": {}}
CHAT = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in (("a", FIRST), ("b", SCHEMA))
]
RESPONSES = [{"type": "function", **tool["function"]} for tool in CHAT]  # type: ignore[dict-item]
MESSAGES = [{"name": name, "input_schema": schema, "strict": True} for name, schema in (("a", FIRST), ("b", SCHEMA))]


@pytest.fixture(scope="module")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


@pytest.mark.parametrize(
    ("dialect", "tools", "path"),
    [
        ("chat", CHAT, "tools[1].function.parameters"),
        ("responses", RESPONSES, "tools[1].parameters"),
        ("messages", MESSAGES, "tools[1].input_schema"),
    ],
)
@pytest.mark.parametrize("must_call", [True, False])
def test_each_dialect_names_its_own_way(
    grammars: Grammars, dialect: str, tools: list[Any], path: str, must_call: bool
) -> None:
    choice: Any = "required" if must_call else "auto"
    if dialect == "messages":
        choice = {"type": "any" if must_call else "auto"}
    converted = Script(dialect, members={"tools": tools, "tool_choice": choice}).converted()
    with pytest.raises(RequestError) as refused:
        (enforced_form if must_call else offered_calls)(converted, grammars)
    assert str(refused.value).startswith(path)
    assert "#/properties/n/pattern" in str(refused.value)
    assert "Leave `strict` off" in str(refused.value)


def test_of_tools_of_one_name_the_first_counts_and_odd_ones_are_passed_over() -> None:
    body: Any = {"tools": [3, {"name": "a"}, {"name": "a"}, {"function": {"name": 4}}], "functions": [{"name": "b"}]}
    assert tool_paths(body) == {"a": "tools[1].parameters", "b": "functions[0].parameters"}
    assert tool_paths(None) == tool_paths({"tools": 3}) == {}


def test_a_custom_tool_s_format_is_named_where_its_dialect_has_it() -> None:
    form: Any = {"type": "grammar", "syntax": "yacc", "definition": "x"}
    with pytest.raises(RefusedRequest, match=r"^tools\[0\]\.format: "):
        input_forms({"tools": [{"type": "custom", "name": "a", "format": form}]})
    with pytest.raises(RefusedRequest, match=r"^tools\[0\]\.custom\.format: "):
        input_forms({"tools": [{"type": "custom", "custom": {"name": "a", "format": form}}]})
