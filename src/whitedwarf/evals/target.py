"""What is examined: an engine in this process, or a server somewhere."""

from dataclasses import dataclass
from typing import Protocol

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.grade import ThinkMode


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What reports and traces say of it; "" and None for what is not known."""

    model: str
    shape: str
    backend: str
    context_tokens: int | None


@dataclass(frozen=True, slots=True)
class Asking:
    """How each question is asked. `seed` is that of the whole exam."""

    max_tokens: int
    temperature: float
    top_p: float
    min_p: float
    seed: int
    thinking: ThinkMode

    @property
    def sampling(self) -> str:
        """In a trace."""
        return f"temp={self.temperature:g} top_p={self.top_p:g} min_p={self.min_p:g}"


class NoMoreQuestionsError(WhitedwarfError):
    """Asking anything else makes no sense either: a wrong key, no such model, an engine that is gone."""


class Target(Protocol):
    """Used on one event loop."""

    @property
    def facts(self) -> TargetFacts: ...

    def why_skipped(self, case: Case) -> str | None:
        """Why there is no room for an answer to this; None where there is, or where nobody knows."""

    async def ask(self, case: Case, asking: Asking, answer: Answer) -> None:
        """Ask, and write what is said into `answer`. May be cancelled; what has come by then stays in `answer`.

        WhitedwarfError when there is no whole answer, NoMoreQuestionsError when there will be none to any other.
        """

    def pause(self, is_paused: bool) -> None:
        """Answers that are coming stand still, where that is possible."""
