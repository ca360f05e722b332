"""How V4, which has no system messages but the first, is told of later ones: the user's side says it.

Promises: the official words (spec/recipe.md 5); what says nothing becomes no message. Tools that become known later are
ours to tell of: the official library offers V4 all tools from the start.
"""

from whitedwarf.conversation.content import Content, text_parts
from whitedwarf.conversation.message import UserMessage
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.json_style import FloatStyle
from whitedwarf.prompt.toolspec import updated_tools

_REMINDER = "<system-reminder>\n{}\n</system-reminder>"


def reminder(content: Content, tools: tuple[ToolDefinition, ...]) -> list[UserMessage]:
    """The message, or none; `content` has no images, for V4 sees none."""
    text = "".join(text_parts(content))
    if tools:
        told = updated_tools(tools, FloatStyle.V4)
        text = text + told if text else told.lstrip("\n")
    return [UserMessage(_REMINDER.format(text))] if text else []
