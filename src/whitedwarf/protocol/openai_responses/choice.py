"""Which of the declared and found tools the model is offered (spec/recipe.md 4 "tool_choice"): protocol/tool_choice.py.

Adds what only Responses requests have: web searches, several allowed tools, and, under the local policy, members of
namespaces named as the client knows them.
"""

from collections.abc import Mapping

from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.protocol.openai_responses.request import AllowedTools, Choice, HostedChoice, NamedChoice
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.tool_choice import ChosenTools, chosen_tools

Tools = tuple[ToolDefinition, ...]
Origins = Mapping[str, tuple[str, str]]  # of a member of a namespace: namespace and local name


def chosen_of(
    choice: Choice | None, tools: Tools, origins: Origins, policy: Policy, *, is_thinking: bool
) -> ChosenTools:
    """What a request's choice means for these tools; RefusedRequest for a tool that is not there."""
    match choice:
        case NamedChoice():
            name = _name_of(choice, tools, origins, policy)
            return chosen_tools(tools, ToolChoice.REQUIRED, name, policy, is_thinking=is_thinking)
        case AllowedTools(mode, allowed):
            names = {_name_of(one, tools, origins, policy) for one in allowed}
            for name in names:
                _check_is_there(name, tools, policy)
            kept = tuple(tool for tool in tools if tool.name in names)
            return chosen_tools(kept, ToolChoice.named(mode), None, policy, is_thinking=is_thinking)
        case None | HostedChoice():
            return chosen_tools(tools, ToolChoice.AUTO, None, policy, is_thinking=is_thinking)
        case _:
            return chosen_tools(tools, ToolChoice.named(choice), None, policy, is_thinking=is_thinking)


def _check_is_there(name: str, tools: Tools, policy: Policy) -> None:
    """RefusedRequest if there is no tool of that name."""
    chosen_tools(tools, ToolChoice.REQUIRED, name, policy, is_thinking=False)


def _name_of(choice: NamedChoice, tools: Tools, origins: Origins, policy: Policy) -> str:
    """The name that the model knows: of a member of a namespace also where the choice has its own name alone."""
    is_known = choice.namespace is None and any(tool.name == choice.name for tool in tools)
    if policy.is_official or is_known:
        return choice.name
    meant = (
        name
        for name, (namespace, local) in origins.items()
        if local == choice.name and choice.namespace in (None, namespace)
    )
    return next(meant, choice.name)
