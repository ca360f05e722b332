"""Which of the declared and found tools the model is offered (spec/recipe.md 4 "tool_choice"): protocol/tool_choice.py.

Adds what only Responses requests have: web searches, several allowed tools, and, under the local policy, members of
namespaces named as the client knows them.
"""

from collections.abc import Iterable, Mapping, Sequence

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
            (name,) = _names_of((choice,), tools, origins, policy)
            return chosen_tools(tools, ToolChoice.REQUIRED, name, policy, is_thinking=is_thinking)
        case AllowedTools(mode, allowed):
            kept = _allowed(_names_of(allowed, tools, origins, policy), tools, policy)
            return chosen_tools(kept, ToolChoice.named(mode), None, policy, is_thinking=is_thinking)
        case None | HostedChoice():
            return chosen_tools(tools, ToolChoice.AUTO, None, policy, is_thinking=is_thinking)
        case _:
            return chosen_tools(tools, ToolChoice.named(choice), None, policy, is_thinking=is_thinking)


def _allowed(names: Sequence[str], tools: Tools, policy: Policy) -> Tools:
    """The tools of these names; RefusedRequest if one is not there."""
    wanted = set(names)
    missing = wanted.difference(tool.name for tool in tools)
    for name in names:
        if name in missing:
            chosen_tools(tools, ToolChoice.REQUIRED, name, policy, is_thinking=False)  # says so
    return tuple(tool for tool in tools if tool.name in wanted)


def _names_of(choices: Iterable[NamedChoice], tools: Tools, origins: Origins, policy: Policy) -> list[str]:
    """The names that the model knows: of a member of a namespace also where the choice has its own name alone."""
    if policy.is_official:
        return [choice.name for choice in choices]
    known: dict[tuple[str | None, str], str] = {}
    for name, (namespace, local) in reversed(list(origins.items())):  # the first of an origin counts
        known[namespace, local] = known[None, local] = name
    known |= {(None, tool.name): tool.name for tool in tools}
    return [known.get((choice.namespace, choice.name), choice.name) for choice in choices]
