"""A conversation with a model, as the agent's loop needs it: in this process, or behind a URL.

The loop says, asks and reports; a dialogue knows how that becomes tokens or messages. Everything said is part of the
context from then on, whether or not the model has read it yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from whitedwarf.agent.events import AnswerEnd, Listener
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was read whole; `id` is empty where the model gives none."""

    name: str
    arguments: Mapping[str, Json]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one answer was. `fault` is for REFUSED and FAULTY: what the model should be told."""

    end: AnswerEnd
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    fault: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave."""

    call: Call
    text: str
    is_error: bool = False


class Checks(Protocol):
    """Looks at calls while they are written (Tool.preflight); ToolError ends the answer."""

    def closed(self, tool: str, parameter: str, arguments: Mapping[str, str]) -> None: ...

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        """Whether what is written of a parameter says enough, so that `[upto]` may stand for most of the rest."""
        ...


class Dialogue(Protocol):
    """One conversation. All but `interrupt` are called on the agent's thread."""

    @property
    def context_length(self) -> int:
        """Tokens at most."""
        ...

    @property
    def used_tokens(self) -> int:
        """Of the context, all that was said counted; an estimate where a server counts."""
        ...

    @property
    def is_thinking(self) -> bool:
        """Whether the next answer begins with a thought; may be set between answers."""
        ...

    @is_thinking.setter
    def is_thinking(self, value: bool) -> None: ...

    def begin(self, system: str, tools: Sequence[ToolDefinition], extra: str) -> None:
        """A new, empty conversation. `extra` is the user's own system text, never read as markup."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text, about."""
        ...

    def say(self, text: str) -> None:
        """The user's words."""
        ...

    def instruct(self, text: str) -> None:
        """A line of the system's in between: the date, a reminder, a summary of what was dropped."""
        ...

    def remind(self, text: str) -> None:
        """The system's part once more, tools and all, behind `text`; nothing where every answer sees it anew."""
        ...

    def report(self, results: Sequence[Result], note: str = "") -> None:
        """What the last answer's calls gave, in their order; `note`: or, without any call, what was wrong with it."""
        ...

    def answer(self, listen: Listener, checks: Checks, max_tokens: int) -> Answer:
        """Have the model answer; everything it says is told as it comes. WhitedwarfError when the model fails.

        After any error or interruption the conversation is whole: what was drawn is part of it, and closed.
        """
        ...

    def interrupt(self) -> None:
        """End the answer in hand, from any thread; without one, nothing."""
        ...

    def summarise(self, request: str, max_tokens: int, listen: Listener) -> str:
        """The likeliest answer, without thoughts and calls, to a request that leaves no trace in the conversation."""
        ...

    def shorten(self, summary: str, keep_tokens: int, listen: Listener) -> None:
        """Drop all but the system's part and about the last `keep_tokens`, from the next words of the user on; the
        summary stands between the two."""
        ...


@runtime_checkable
class GradedThinking(Protocol):
    """A dialogue that may be asked to think more or less thoroughly, from the next answer on."""

    thinking: Thinking
