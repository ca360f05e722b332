"""Tools as requests declare them, checked and made ToolDefinitions; alike in all dialects.

Promises: under the official policy the official library's checks, order and texts (spec/recipe.md 3 "Tools"); under the
local one parameters are kept as given, if they are an object or absent, and equal tools declared twice are one. Does
not know where in a request tools stand: who calls gives the path for messages.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.fields import word_for
from whitedwarf.protocol.json_schema import first_problem
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.resolution import compact
from whitedwarf.protocol.strict_schema import strict_parameters

_OFFICIAL_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_OFFICIAL_LENGTH = 128  # bytes
_LOCAL_NAME = re.compile(r'[^\x00-\x1f\x7f-\x9f"<>]+')  # what no tool call's markup can be confused with
_LOCAL_LENGTH = 256  # characters


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as it stands in a request, its name checked. `parameters` None: absent or null."""

    name: str
    description: str | None = None
    parameters: Json = None
    strict: bool | None = None
    is_deferred: bool = False


def check_tool_name(name: str, path: str, policy: Policy) -> None:
    """Refuse a name that no tool may have; `path` is where it stands, as in `tools[0].function.name`."""
    if policy.is_official:
        _check_official_name(name, path)
    elif not (1 <= len(name) <= _LOCAL_LENGTH and _LOCAL_NAME.fullmatch(name)):
        raise RefusedRequest(
            f"Invalid '{path}': a tool's name has 1 to {_LOCAL_LENGTH} characters and no control characters or any of "
            f'" < >, but got {_shown(name)}. Rename the tool.'
        )


def _check_official_name(name: str, path: str) -> None:
    if not name:
        raise RefusedRequest(
            f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
        )
    length = len(name.encode())
    if length > _OFFICIAL_LENGTH:
        raise RefusedRequest(
            f"Invalid '{path}': string too long. Expected a string with maximum length {_OFFICIAL_LENGTH}, "
            f"but got a string with length {length} instead."
        )
    if not _OFFICIAL_NAME.fullmatch(name):
        raise RefusedRequest(
            f"Invalid '{path}': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )


def _shown(name: str) -> str:
    return f"{name!r}" if len(name) <= 64 else f"{name[:64]!r}… ({len(name)} characters)"


def tool_definitions(
    declared: Iterable[DeclaredTool],
    policy: Policy,
    earlier: Sequence[ToolDefinition] = (),
    *,
    is_schema_required: bool = False,
    memory: RecipeMemory | None = None,
) -> tuple[ToolDefinition, ...]:
    """All of these tools; RefusedRequest where a name is taken, also by an `earlier` tool, or a schema is bad.

    Official: any second tool of a name is refused, before its schema is looked at. Local: a tool that equals the
    first of its name is left out (whether either is deferred does not count). With a memory, the same tools give the
    same tuple again.
    """
    listed = list(declared)

    def define() -> tuple[ToolDefinition, ...]:
        return _defined(listed, policy, earlier, is_schema_required=is_schema_required)

    if memory is None or earlier:
        return define()
    return memory.tools(_key(listed, is_official=policy.is_official, is_schema_required=is_schema_required), define)


def _key(declared: Sequence[DeclaredTool], **settings: bool) -> Json:
    """All that definitions depend on."""
    tools: list[Json] = [
        [tool.name, tool.description, tool.parameters, tool.strict, tool.is_deferred] for tool in declared
    ]
    return [*settings.values(), tools]


def _defined(
    declared: Sequence[DeclaredTool], policy: Policy, earlier: Sequence[ToolDefinition], *, is_schema_required: bool
) -> tuple[ToolDefinition, ...]:
    taken = {tool.name: tool for tool in earlier}
    definitions = []
    for tool in declared:
        if policy.is_official and tool.name in taken:
            raise RefusedRequest("Tool names must be unique.")
        definition = tool_definition(
            tool.name,
            tool.description,
            tool.parameters,
            tool.strict,
            policy,
            is_deferred=tool.is_deferred,
            is_schema_required=is_schema_required,
        )
        if tool.name not in taken:
            taken[tool.name] = definition
            definitions.append(definition)
        elif not _are_alike(taken[tool.name], definition):
            raise RefusedRequest(
                f"Tool names must be unique, but two different tools are called {_shown(tool.name)}. "
                "Leave one out or rename it."
            )
    return tuple(definitions)


def _are_alike(one: ToolDefinition, other: ToolDefinition) -> bool:
    return one.description == other.description and compact(one.parameters) == compact(other.parameters)


def tool_definition(
    name: str,
    description: str | None,
    parameters: Json,
    strict: bool | None,
    policy: Policy,
    *,
    is_deferred: bool = False,
    is_schema_required: bool = False,
) -> ToolDefinition:
    """One tool; RefusedRequest if its parameters are no schema of objects.

    Absent parameters (None) are `{}`, or with `is_schema_required` checked like any value, as Messages does.
    """
    if policy.is_official:
        shown = _official_parameters(name, parameters, strict, is_schema_required)
    else:
        shown = _local_parameters(name, parameters)
    return ToolDefinition(name, description, shown, strict, is_deferred)


def _official_parameters(name: str, parameters: Json, strict: bool | None, is_schema_required: bool) -> Json:
    if strict:
        return strict_parameters(parameters)
    if parameters is None and not is_schema_required:
        return {}
    check_parameters(name, parameters)
    return parameters


def check_parameters(name: str, parameters: Json) -> None:
    """Refuse what is no JSON Schema of objects, with the official texts."""
    problem = first_problem(parameters)
    if problem is None:
        kind = parameters.get("type") if isinstance(parameters, dict) else None
        if kind == "object":
            return
        problem = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {compact(kind)}'."
    raise RefusedRequest(f"Invalid schema for function '{name}': {problem}")


def _local_parameters(name: str, parameters: Json) -> Json:
    if parameters is None:
        return {}
    if isinstance(parameters, dict):
        return parameters
    raise RefusedRequest(
        f"Invalid schema for function {_shown(name)}: expected a JSON object, got {word_for(parameters)}. "
        "Give a JSON Schema of the arguments, or leave it out."
    )


def check_strictness(tools: Iterable[ToolDefinition], policy: Policy) -> None:
    """Refuse strict tools beside others, as the official library does; the local policy enforces neither."""
    if policy.is_official and len({bool(tool.is_strict) for tool in tools}) > 1:
        raise RefusedRequest("Cannot use strict tool with non-strict tool in the same request")
