"""Which tools the model is offered and whether it must call one, in any dialect (spec/recipe.md 3 "tool_choice").

Promises: the official rules and texts under the official policy. The local one also lets a thinking model be made to
call: the prompt then does not begin the call, for the thoughts come first; only the constraint requires it.
"""

from dataclasses import dataclass

from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.policy import Policy


@dataclass(frozen=True, slots=True)
class ChosenTools:
    """What a conversation is given. `must_call` also where `choice` leaves it to the constraint to say so."""

    tools: tuple[ToolDefinition, ...] = ()
    choice: ToolChoice = ToolChoice.AUTO
    must_call: bool = False


def chosen_tools(
    tools: tuple[ToolDefinition, ...], choice: ToolChoice, name: str | None, policy: Policy, *, is_thinking: bool
) -> ChosenTools:
    """The tools that stay, and the choice that the prompt tells; with a `name`, only that tool, to be called."""
    if name is None and choice is ToolChoice.NONE:
        return ChosenTools((), ToolChoice.NONE)
    if not tools:
        return ChosenTools()
    kept = tools if name is None else (_named(tools, name),)
    if name is None and choice is ToolChoice.AUTO:
        return ChosenTools(kept)
    if not is_thinking:
        return ChosenTools(kept, ToolChoice.REQUIRED, must_call=True)
    if policy.is_official:
        raise RefusedRequest("Thinking mode does not support this tool_choice")
    return ChosenTools(kept, ToolChoice.AUTO, must_call=True)


def _named(tools: tuple[ToolDefinition, ...], name: str) -> ToolDefinition:
    for tool in tools:
        if tool.name == name:
            return tool
    raise RefusedRequest(
        f"Invalid value for 'tool_call': no function named '{name}' was specified in the 'tools' parameter."
    )
