"""How a prompt explains the tools at hand, and the form that the answer should have."""

from collections.abc import Iterable
from functools import cache

from whitedwarf.conversation.response_format import JsonObject, JsonSchema, ResponseFormat
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt import literals
from whitedwarf.prompt.dsml import Dialect
from whitedwarf.prompt.json_style import FloatStyle, dumps
from whitedwarf.prompt.segments import Segment, Text, parse_rendered
from whitedwarf.prompt.special import SpecialToken


def schema_text(tool: ToolDefinition, floats: FloatStyle) -> str:
    """One tool as a line of JSON."""
    fields = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
    return dumps(fields, floats)


def tool_prompt(tools: Iterable[ToolDefinition], dialect: Dialect) -> list[Segment]:
    """The chapter about tools; deferred ones are not told of yet."""
    lines = "\n".join(schema_text(tool, dialect.floats) for tool in tools if not tool.is_deferred)
    listed = f"{lines}\n\n" if lines else dialect.no_tools
    return [*_instructions(dialect), Text(listed + literals.TOOLS_AFTER)]


def updated_tools(tools: Iterable[ToolDefinition], floats: FloatStyle) -> str:
    """The chapter about tools that a later system message brings (V4.1)."""
    return literals.TOOLS_UPDATED + "\n".join(schema_text(tool, floats) for tool in tools)


def format_text(response_format: ResponseFormat, json_object: str, floats: FloatStyle) -> str:
    """What the prompt says about the answer's form; nothing for plain text and for a regular expression."""
    match response_format:
        case JsonObject():
            return json_object
        case JsonSchema(schema):
            return literals.SCHEMA_FORMAT + dumps(schema, floats)
        case _:
            return ""


@cache
def _instructions(dialect: Dialect) -> tuple[Segment, ...]:
    text = literals.TOOLS_BEFORE.format(
        calls=SpecialToken.DSML + dialect.calls,
        invoke=SpecialToken.DSML + dialect.invoke,
        parameter=SpecialToken.DSML + dialect.parameter,
        think_open=SpecialToken.THINK_OPEN,
        think_close=SpecialToken.THINK_CLOSE,
    )
    return tuple(parse_rendered(text))
