"""A target that answers from a table, and can be held; and cases for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.target import Asking, TargetFacts

ASKING = Asking(max_tokens=100, temperature=0.0, top_p=1.0, min_p=0.05, seed=1, thinking="high")
FACTS = TargetFacts("table.gguf", "layers 1", "table", 1000)


def letters(*names: str, answer: str = "B") -> tuple[Case, ...]:
    """Cases of that source whose right answer is B."""
    return tuple(
        Case("own", name, "Letters", f"Case {name}", f"Which letter is {name}?", ("1", "2", "3"), answer, "choice")
        for name in names
    )


@dataclass
class TableTarget:
    """Says what `answers` has for a case's id, a piece for each word; an error is raised. Where `held` has an event
    for the id, it waits for that after the first piece."""

    answers: Mapping[str, str | WhitedwarfError] = field(default_factory=dict)
    held: dict[str, anyio.Event] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()
    facts: TargetFacts = FACTS
    asked: list[str] = field(default_factory=list)
    paused: list[bool] = field(default_factory=list)
    most_at_once: int = 0
    _num_live: int = 0

    def why_skipped(self, case: Case) -> str | None:
        return "no room" if case.id in self.skipped else None

    def pause(self, is_paused: bool) -> None:
        self.paused.append(is_paused)

    async def ask(self, case: Case, asking: Asking, answer: Answer) -> None:
        self.asked.append(case.id)
        self._num_live += 1
        self.most_at_once = max(self.most_at_once, self._num_live)
        try:
            await self._say(case, answer)
        finally:
            self._num_live -= 1

    async def _say(self, case: Case, answer: Answer) -> None:
        answer.think_mode = "high"
        answer.read(7, 7)
        said = self.answers.get(case.id, "Hm. Well. </think> Answer: B")
        if isinstance(said, WhitedwarfError):
            raise said
        is_thinking = True
        for word in said.split(" "):
            answer.generated_tokens += 1
            if word == "</think>":
                is_thinking = False
                answer.close_thoughts()
            else:
                answer.say(f"{word} ".encode(), f"{word} ", is_thinking=is_thinking)
            if case.id in self.held:
                await self.held[case.id].wait()
            await anyio.lowlevel.checkpoint()
