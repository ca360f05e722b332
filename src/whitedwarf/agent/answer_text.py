"""What one answer came to, collected from what was told of it."""

from collections.abc import Mapping

from whitedwarf.agent.dialogue import Call
from whitedwarf.agent.events import Event
from whitedwarf.conversation.events import ReasoningDelta, TextDelta, ToolCallFinished
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.arguments import parse_arguments


class AnswerText:
    """Text, thoughts, and the calls that are complete."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Call] = []

    @property
    def text(self) -> str:
        """The answer's own words."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The thoughts."""
        return "".join(self._reasoning)

    @property
    def calls(self) -> tuple[Call, ...]:
        """In their order."""
        return tuple(self._calls)

    def take(self, event: Event) -> None:
        """One more event of the answer."""
        match event:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallFinished(_, name, arguments):
                self._calls.append(Call(name, _values(arguments)))


def _values(arguments: str) -> Mapping[str, Json]:
    """An object too deep, or of no text, is for the tool to refuse."""
    values = parse_arguments(arguments)
    return {"arguments": arguments} if values is None else values
