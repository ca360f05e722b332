"""Whether a request wants one call of a tool at a time, in any dialect's words."""

from whitedwarf.conversation.json_value import Json


def asks_for_one_call(body: Json) -> bool:
    """OpenAI's `parallel_tool_calls: false`, Anthropic's `tool_choice.disable_parallel_tool_use: true`."""
    if not isinstance(body, dict):
        return False
    choice = body.get("tool_choice")
    is_disabled = isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True
    return is_disabled or body.get("parallel_tool_calls") is False
