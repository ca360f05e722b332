"""One turn of the model, collected from the items that a Responses request splits it into."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from whitedwarf.conversation.message import AssistantMessage, Message, ToolMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.protocol.openai_responses.namespaces import OfferedTool


@dataclass(frozen=True, slots=True)
class ToolUpdate:
    """A place at which found tools become known; the definitions come later."""

    tools: tuple[OfferedTool, ...]


Entry: TypeAlias = Message | ToolUpdate


@dataclass(slots=True)
class Turn:
    """What one answer of the model said, called and was given, as far as it is known. Starts empty."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolMessage] = field(default_factory=list)
    updates: list[ToolUpdate] = field(default_factory=list)
    is_begun: bool = False

    def say(self, text: str) -> None:
        """Some of the answer."""
        self.is_begun = True
        if text:
            self.texts.append(text)

    def think(self, text: str) -> None:
        """Some of the reasoning, which is not empty."""
        self.is_begun = True
        self.thoughts.append(text)

    def call(self, call: ToolCall) -> None:
        """One more call."""
        self.is_begun = True
        self.calls.append(call)

    def entries(self) -> list[Entry]:
        """The turn as messages; none where nothing began."""
        if not self.is_begun:
            return []
        reasoning = "\n".join(self.thoughts) if self.thoughts else None
        calls = tuple(self.calls) or None
        return [AssistantMessage("\n\n".join(self.texts), reasoning, calls), *self.results, *self.updates]


def messages_of(entries: Iterable[Entry]) -> tuple[Message, ...]:
    """The entries without the updates."""
    return tuple(entry for entry in entries if not isinstance(entry, ToolUpdate))
