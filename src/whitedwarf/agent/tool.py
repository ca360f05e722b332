"""What a tool is to the agent: a definition for the model, and a way to run it.

Promises: whatever a tool raises as ToolError becomes text for the model, never the end of a turn. Arguments come as the
model wrote them: numbers and flags are read leniently, because all values of DSML may be strings.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.errors import WhitedwarfError

_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off", ""})


class ToolError(WhitedwarfError):
    """What went wrong, in words for the model: what was expected, what came, what to do."""


class Effect(StrEnum):
    """What a tool may do at most; approval is asked by it."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model is told, and what people see of it."""

    text: str
    is_error: bool = False
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """While a tool runs: where it shows output, and how it hears that the user interrupts."""

    tell: Callable[[str], None] = lambda text: None
    interrupted: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, read leniently; ToolError names what was expected."""

    values: Mapping[str, Json]

    def text(self, name: str, default: str | None = None) -> str:
        """A string; numbers and flags are taken as they are written."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise ToolError(f"the parameter {name} is missing; it is required")
            return default
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            raise ToolError(f"expected {name} to be a string, got {type(value).__name__}")
        return str(value)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds, also written as a string."""
        value = self.values.get(name, default)
        if isinstance(value, str) and not value.strip():
            return default
        try:
            number = int(str(value).strip()) if not isinstance(value, float) else int(value)
        except (ValueError, OverflowError):
            raise ToolError(f"expected {name} to be a number from {least} to {most}, got {str(value)[:80]!r}") from None
        if not least <= number <= most:
            raise ToolError(f"expected {name} to be a number from {least} to {most}, got {number}")
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value, also written as a string."""
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ToolError(f"expected {name} to be true or false, got {word[:80]!r}")


class Tool(ABC):
    """One tool. It is called on the agent's thread, one call at a time; `preflight` on the engine's."""

    definition: ToolDefinition
    effect: Effect = Effect.READ

    @property
    def name(self) -> str:
        """As the model calls it."""
        return self.definition.name

    @abstractmethod
    def summary(self, arguments: Arguments) -> str:
        """One line for people, such as "Reading a.py 1:500". Never raises for odd arguments."""

    @abstractmethod
    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """Do it. ToolError where it cannot be done."""

    def detail(self, arguments: Arguments) -> str:
        """What a question shows below the summary: the whole command, the diff. Never raises; without effects."""
        return ""

    def risk(self, arguments: Arguments) -> str:
        """Why the user has to be asked even where the tool is allowed already; empty for a usual call. Never raises."""
        return ""

    def standing(self) -> str:
        """What of it goes on, such as jobs that run; told to the model when the words about it may be dropped."""
        return ""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """End what the tool has running; more than once is well."""

    def preflight(self, closed: str, arguments: Mapping[str, str]) -> None:  # noqa: B027  (most have nothing to check)
        """While the call is still written: parameter `closed` is complete, `arguments` holds the complete text ones.

        ToolError ends the answer at once; quick, and without effects.
        """

    def may_skip(self, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        """Whether `begun`, what is written of a parameter, says enough for `[upto]` to stand for most of the rest.

        Asked at line ends, on the engine's thread: quick, without effects, and without raising.
        """
        return False


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools on offer, by name."""

    tools: Mapping[str, Tool]

    @classmethod
    def of(cls, *tools: Tool) -> "Toolbox":
        """ValueError for two tools of one name."""
        by_name = {tool.name: tool for tool in tools}
        if len(by_name) != len(tools):
            raise ValueError(f"two tools have the same name: {sorted(tool.name for tool in tools)}")
        return cls(by_name)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """For the prompt, in their order."""
        return tuple(tool.definition for tool in self.tools.values())

    def standing(self) -> str:
        """What of any of them goes on; empty where nothing does."""
        return "\n".join(text for tool in self.tools.values() if (text := tool.standing()))

    def close(self) -> None:
        """End what any of them has running."""
        for tool in self.tools.values():
            tool.close()

    def find(self, name: str) -> Tool:
        """ToolError for a name that is not offered."""
        if name not in self.tools:
            raise ToolError(f"there is no tool named {name!r}; the tools are {', '.join(self.tools)}")
        return self.tools[name]
