"""DSML, the markup in which DeepSeek calls tools: how V4 and V4.1 each write it.

Promises: names and values stand as they are, and stay text whatever they spell; only the tags hold control tokens.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.prompt.json_style import FloatStyle, dumps
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken

_DSML = Control(SpecialToken.DSML)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What follows the DSML token in a tag, how floats are written, and what stands for no parameters and no tools."""

    calls: str
    invoke: str
    parameter: str
    floats: FloatStyle
    no_parameters: str
    no_tools: str


V4 = Dialect("tool_calls", "invoke", "parameter", FloatStyle.V4, no_parameters="", no_tools="\n")
V41 = Dialect(" calls", " invoke", " parameter", FloatStyle.V41, no_parameters="\n", no_tools="\n\n")


def calls_opening(dialect: Dialect) -> list[Segment]:
    """The start of a block of calls, with the empty line before it."""
    return [Text("\n\n<"), _DSML, Text(f"{dialect.calls}>\n")]


def calls_block(calls: Iterable[ToolCall], dialect: Dialect) -> tuple[Segment, ...]:
    """A whole block of calls, without empty texts."""
    inner = (segment for call in calls for segment in _call(call, dialect))
    return (*calls_opening(dialect), *inner, Text("</"), _DSML, Text(f"{dialect.calls}>"))


def _call(call: ToolCall, dialect: Dialect) -> Iterator[Segment]:
    yield from (Text("<"), _DSML, Text(f'{dialect.invoke} name="{call.name}">\n'))
    arguments = parse_arguments(call.arguments)
    if arguments is None:
        arguments = {"arguments": call.arguments}
    for name, value in arguments.items():
        yield from _parameter(name, value, dialect)
    if not arguments and dialect.no_parameters:
        yield Text(dialect.no_parameters)
    yield from (Text("</"), _DSML, Text(f"{dialect.invoke}>\n"))


def _parameter(name: str, value: Json, dialect: Dialect) -> Iterator[Segment]:
    is_string, text = ("true", value) if isinstance(value, str) else ("false", dumps(value, dialect.floats))
    yield from (Text("<"), _DSML, Text(f'{dialect.parameter} name="{name}" string="{is_string}">{text}</'))
    yield from (_DSML, Text(f"{dialect.parameter}>\n"))
