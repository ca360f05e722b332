"""The tools of a Chat request, and which of them it wants called."""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader, anything, boolean, optional, record, required, string, variant
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.tool_definitions import DeclaredTool, check_tool_name


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """What a tool is called, does and takes."""

    name: str
    description: str | None = None
    parameters: Json = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """One entry of `tools`."""

    type: str
    function: FunctionDefinition


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """`tool_choice`: with a name, that tool must be called."""

    choice: ToolChoice = ToolChoice.AUTO
    name: str | None = None


_READ_DEFINITION = record(
    "ChatCompletionFunctionDefinition",
    {
        "name": required(string),
        "description": optional(string),
        "parameters": optional(anything),
        "strict": optional(boolean),
    },
    FunctionDefinition,
)
_READ_TYPE = variant("function")
read_tool = record(
    "ChatCompletionTool", {"type": required(_READ_TYPE), "function": required(_READ_DEFINITION)}, ToolRequested
)
"""One entry of `tools`; MalformedRequest with the official words."""
_READ_CHOSEN_FUNCTION = record("ChatCompletionToolChoiceFunction", {"name": required(string)}, lambda name: name)


def read_choice(value: Json) -> ChoiceRequest:
    """`tool_choice`, a word or a tool; MalformedRequest with the official words."""
    if isinstance(value, str) and value in list(ToolChoice):
        return ChoiceRequest(ToolChoice(value))
    if not isinstance(value, dict) or "type" not in value:
        raise MalformedRequest("expected one of `none`, `auto`, `required` or a tool")
    _read_member(value, "type", _READ_TYPE)
    return ChoiceRequest(ToolChoice.REQUIRED, _read_member(value, "function", _READ_CHOSEN_FUNCTION))


def _read_member(value: dict[str, Json], name: str, read: Reader) -> str:
    try:
        member: str = read(value.get(name))
    except MalformedRequest as error:
        raise MalformedRequest(f"field `{name}`: {error}") from error
    return member


def check_tool_names(tools: Sequence[ToolRequested], policy: Policy) -> None:
    """Refuse names that no tool may have."""
    for index, tool in enumerate(tools):
        check_tool_name(tool.function.name, f"tools[{index}].function.name", policy)


def declared_tools(tools: Sequence[ToolRequested]) -> list[DeclaredTool]:
    """The tools for the shared checks."""
    functions = [tool.function for tool in tools]
    return [DeclaredTool(one.name, one.description, one.parameters, one.strict) for one in functions]
