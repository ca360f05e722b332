"""Declared and found tools, checked and made definitions for the prompt (spec/recipe.md 4 "Tools").

Promises: the official checks, their order and their texts under the official policy; under the local one every custom
tool is offered as a function with one text, its `input`.
"""

from collections.abc import Iterable, Sequence

from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.custom_tools import custom_description, custom_parameters
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.declarations import (
    CustomTool,
    FunctionTool,
    NamespaceTool,
    SearchTool,
    Tool,
    WebSearchTool,
)
from whitedwarf.protocol.openai_responses.literals import APPLY_PATCH_DESCRIPTIONS, APPLY_PATCH_PARAMETERS
from whitedwarf.protocol.openai_responses.namespaces import OfferedTool
from whitedwarf.protocol.policy import HostedTools, Policy
from whitedwarf.protocol.tool_definitions import DeclaredTool, check_tool_name, tool_definitions

APPLY_PATCH = "apply_patch"
SERVER_TOOLS_REFUSED = "Server tools are not supported"


def check_tools(tools: Iterable[Tool], path: str, policy: Policy) -> None:
    """Refuse names that no tool may have, and kinds of tools that the policy does not take, in order."""
    for index, tool in enumerate(tools):
        _check_tool(tool, f"{path}[{index}]", policy)


def _check_tool(tool: Tool, path: str, policy: Policy) -> None:
    match tool:
        case FunctionTool(name):
            check_tool_name(name, f"{path}.name", policy)
        case CustomTool(name):
            _check_custom(name, path, policy)
        case NamespaceTool():
            _check_namespace(tool, path, policy)
        case WebSearchTool() if policy.responses_web_search is HostedTools.REFUSED:
            raise RefusedRequest(SERVER_TOOLS_REFUSED)


def _check_custom(name: str, path: str, policy: Policy) -> None:
    if not policy.is_official:
        check_tool_name(name, f"{path}.name", policy)
    elif name != APPLY_PATCH:
        raise RefusedRequest(f"Unsupported custom tool: '{name}'. Only 'apply_patch' is supported.")


def _check_namespace(namespace: NamespaceTool, path: str, policy: Policy) -> None:
    check_tool_name(namespace.name, f"{path}.name", policy)
    names: set[str] = set()
    for index, member in enumerate(namespace.tools):
        member_path = f"{path}.tools[{index}]"
        if isinstance(member, CustomTool) and policy.is_official:
            raise RefusedRequest(
                "Currently custom tools are not allowed inside a namespace. "
                f"Found custom tool '{member.name}' in {member_path}."
            )
        check_tool_name(member.name, f"{member_path}.name", policy)
        if member.name in names:
            raise RefusedRequest("Tool names within a namespace must be unique.")
        names.add(member.name)


def definitions_of(
    offered: Iterable[OfferedTool],
    version: ModelVersion,
    policy: Policy,
    earlier: Sequence[ToolDefinition] = (),
    *,
    is_deferred: bool = False,
    memory: RecipeMemory | None = None,
) -> tuple[ToolDefinition, ...]:
    """What the prompt says of these tools; RefusedRequest for names that are taken and for bad schemas."""
    declared = (_declared(tool, version, is_deferred=is_deferred) for tool in offered)
    return tool_definitions(declared, policy, earlier, memory=memory)


def _declared(offered: OfferedTool, version: ModelVersion, *, is_deferred: bool) -> DeclaredTool:
    name, tool, namespace = offered.name, offered.tool, offered.namespace
    match tool:
        case FunctionTool():
            description = _member_description(tool.description, namespace, version)
            return DeclaredTool(name, description, tool.parameters, tool.strict, is_deferred)
        case SearchTool():
            return DeclaredTool(name, tool.description, tool.parameters, None, is_deferred)
        case CustomTool() if tool.name == APPLY_PATCH and namespace is None:
            return DeclaredTool(name, APPLY_PATCH_DESCRIPTIONS[version], APPLY_PATCH_PARAMETERS, None, is_deferred)
        case CustomTool():
            told = custom_description(tool.description, tool.format)
            description = _member_description(told, namespace, version)
            return DeclaredTool(name, description, custom_parameters(), None, is_deferred)


def _member_description(description: str | None, namespace: NamespaceTool | None, version: ModelVersion) -> str | None:
    if version is ModelVersion.V4 or namespace is None or not namespace.description:
        return description
    return f"{namespace.description}\n{description or ''}"
