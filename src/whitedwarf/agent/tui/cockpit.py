"""What the screen is given: an agent, the commands that are typed with a slash, and what no event tells.

Knows no textual: whoever builds an agent may import this without a screen.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from whitedwarf.agent.approval import Approver
from whitedwarf.agent.events import Listener


class AgentLike(Protocol):
    """The part of `Agent` that a screen uses; every method returns at once, except `close`."""

    @property
    def is_busy(self) -> bool: ...

    @property
    def queued(self) -> tuple[str, ...]: ...

    def submit(self, text: str) -> None: ...

    def take_queued(self) -> str | None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Obeyed:
    """What a slash command did. `is_known` is false for a word that is no command: the text stays in the editor."""

    text: str = ""
    is_error: bool = False
    is_known: bool = True
    leaves: bool = False


class Commands(Protocol):
    """The slash commands. `obey` is called on a thread of the screen's own, one line at a time; it may wait."""

    @property
    def words(self) -> Mapping[str, str]:
        """Each command, such as "/save", with a line of help."""
        ...

    def obey(self, line: str) -> Obeyed: ...

    def completions(self, line: str) -> Sequence[str]:
        """Whole lines that this beginning may become, best first: ids for /switch. Called on the screen's thread."""
        ...


class ScreenApprover(Approver, Protocol):
    """Asks on the screen, from any thread but the screen's; that thread waits. A screen that is gone says no."""

    def confirm(self, text: str) -> bool:
        """Yes or no, such as for "Save the current session?"."""
        ...


class PastLines(Protocol):
    """What was typed before (cli/history.py: LineHistory)."""

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        ...

    def store_string(self, string: str) -> None: ...


class NothingPast:
    """Where nothing is to be remembered."""

    def load_history_strings(self) -> Iterable[str]:
        """None."""
        return ()

    def store_string(self, string: str) -> None:
        """Forget it."""


class ThemeMemory(Protocol):
    """Where the chosen theme is kept; a failure costs the memory and nothing else."""

    def load(self) -> str: ...

    def store(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Cockpit:
    """An agent that is ready to be talked to."""

    agent: AgentLike
    commands: Commands
    context_length: Callable[[], int]  # tokens
    power_percent: Callable[[], int] = lambda: 100
    welcome: str = ""  # shown first, such as which session goes on


Build = Callable[[Listener, ScreenApprover], Cockpit]


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """How the screen looks and begins. `compact_at`: the fraction of the context at which the agent shortens it."""

    model: str
    workspace: str
    past: PastLines = field(default_factory=NothingPast)
    theme: str = ""
    themes: ThemeMemory | None = None
    compact_at: float = 0.85
    is_screen_reader: bool = False
    first_prompt: str = ""
