"""A wish for a tool of the server's that is left out, where a function has its name too."""

import deepseek_recipe as recipe
import pytest

from fakes.official_requests import official_outcome
from protocol.vectors import converted
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.anthropic.convert import convert
from whitedwarf.protocol.policy import local

FUNCTIONS = [{"name": name, "input_schema": {"type": "object"}} for name in "fg"]
SEARCH = {"type": "web_search_20250305", "name": "g"}
OPTIONS = {"messages_web_search": "Drop"}


@pytest.mark.parametrize("model", ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])
@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
@pytest.mark.parametrize("name", ["f", "g"])
@pytest.mark.parametrize("tools", [[*FUNCTIONS, SEARCH], [SEARCH, FUNCTIONS[1]], [SEARCH, FUNCTIONS[0]], [SEARCH]])
def test_a_wish_for_either_is_the_official_one(model: str, thinking: str, name: str, tools: list[object]) -> None:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": thinking},
        "tools": tools,
        "tool_choice": {"type": "tool", "name": name},
    }
    official = official_outcome(recipe.MessagesRequest, body, OPTIONS)
    assert converted({"request": body, "options": OPTIONS}, convert) == official


def test_locally_the_function_is_meant() -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": "disabled"},
        "tools": [*FUNCTIONS, SEARCH],
        "tool_choice": {"type": "tool", "name": "g"},
    }
    conversation = convert(body, local(ModelVersion.V4)).conversation  # type: ignore[arg-type]
    assert [tool.name for tool in conversation.tools] == ["g"]
    assert conversation.tool_choice is ToolChoice.REQUIRED
