"""An earlier answer of the model's while its blocks are read."""

from dataclasses import dataclass, field

from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.protocol.anthropic.pieces import SEPARATOR


@dataclass(slots=True)
class EarlierAnswer:
    """What the model said, thought and called. `is_continued`: the rest of an answer that was begun before."""

    is_continued: bool = False
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        """Whether it makes a message: the rest of an answer may be nothing."""
        return not self.is_continued or bool(self.texts or self.thoughts or self.calls)

    def say(self, text: str) -> None:
        """More text; officially, empty texts at the beginning leave no trace, not even a separator."""
        if text or self.texts:
            self.texts.append(text)

    def message(self) -> AssistantMessage:
        """Texts and thoughts joined; reasoning is None where no thinking block was."""
        reasoning = SEPARATOR.join(self.thoughts) if self.thoughts else None
        return AssistantMessage(SEPARATOR.join(self.texts), reasoning, tuple(self.calls) or None)
