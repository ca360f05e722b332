"""A whole conversation and what is asked of the next answer: everything that shapes a prompt."""

from dataclasses import dataclass, field

from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import PlainText, ResponseFormat
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said, the tools at hand, and how the model is to answer."""

    messages: tuple[Message, ...] = ()
    is_thinking: bool = True
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    reasoning_effort: ReasoningEffort | None = None
    response_format: ResponseFormat = field(default_factory=PlainText)

    @property
    def offers_tools(self) -> bool:
        """Whether the prompt explains tools: also when all of them are deferred."""
        return bool(self.tools) and self.tool_choice is not ToolChoice.NONE
