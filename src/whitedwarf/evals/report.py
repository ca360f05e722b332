"""What came out of an exam: a table for people, one JSON document for scripts, and the exit code."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from whitedwarf.conversation.visible import visible
from whitedwarf.evals.budget import Limits
from whitedwarf.evals.exam import Exam, Phase, Seat
from whitedwarf.evals.grade import Status
from whitedwarf.evals.target import Asking, TargetFacts

FORMAT = 1
_TITLE_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Report:
    """A finished exam, or one that was ended early."""

    target: TargetFacts
    asking: Asking
    limits: Limits
    seats: Sequence[Seat]
    elapsed_s: float

    @classmethod
    def of(cls, exam: Exam, limits: Limits) -> "Report":
        """Of an exam that has ended."""
        return cls(exam.target.facts, exam.asking, limits, exam.seats, exam.elapsed_s)

    def count(self, phase: Phase) -> int:
        """How many cases are there."""
        return Counter(seat.phase for seat in self.seats)[phase]

    @property
    def exit_code(self) -> int:
        """0: something passed and nothing failed; 1 otherwise. What was skipped or stopped does not count."""
        return 0 if self.count(Phase.PASSED) and not self.count(Phase.FAILED) + self.count(Phase.ERROR) else 1

    def summary(self) -> dict[str, object]:
        """The totals."""
        return {
            "passed": self.count(Phase.PASSED),
            "failed": self.count(Phase.FAILED),
            "errors": self.count(Phase.ERROR),
            "skipped": self.count(Phase.SKIPPED),
            "stopped": self.count(Phase.STOPPED),
            "not_asked": self.count(Phase.PENDING),
            "elapsed_s": round(self.elapsed_s, 3),
        }

    def table(self) -> str:
        """For people."""
        return visible("\n".join(self._lines()))

    def document(self) -> dict[str, object]:
        """For scripts, and for `--expect`."""
        return {
            "whitedwarf_eval": FORMAT,
            "target": asdict(self.target),
            "settings": settings(self.asking, self.limits),
            **self.summary(),
            "cases": [_case(seat) for seat in self.seats],
        }

    def _lines(self) -> Iterator[str]:
        judged = self.count(Phase.PASSED) + self.count(Phase.FAILED)
        share = f" ({self.count(Phase.PASSED) / judged:.1%})" if judged else ""
        others = [f"{name} {count}" for name, count in self._others() if count]
        yield ", ".join(
            [
                f"passed {self.count(Phase.PASSED)} of {judged}{share}",
                f"failed {self.count(Phase.FAILED)}",
                *others,
                f"runtime {self.elapsed_s:.1f} s",
            ]
        )
        yield from self._by_source()
        yield f"{'#':>3} {'state':<5} {'prompt':>7} {'gen':>7} {'total':>7} {'given':<8} {'correct':<8} test"
        for seat in self.seats:
            yield _row(seat)

    def _others(self) -> list[tuple[str, int]]:
        phases = {
            "errors": Phase.ERROR,
            "skipped": Phase.SKIPPED,
            "stopped": Phase.STOPPED,
            "not asked": Phase.PENDING,
        }
        return [(name, self.count(phase)) for name, phase in phases.items()]

    def _by_source(self) -> Iterator[str]:
        sources = dict.fromkeys(seat.case.source for seat in self.seats)
        if len(sources) < 2:
            return
        parts = []
        for source in sources:
            own = [seat.phase for seat in self.seats if seat.case.source == source]
            parts.append(f"{source} {own.count(Phase.PASSED)}/{len(own)}")
        yield ", ".join(parts)


def settings(asking: Asking, limits: Limits) -> Mapping[str, object]:
    """All that decides what is answered, but the model."""
    return asdict(asking) | {"soft_limit": limits.soft, "hard_limit": limits.hard, "close_rank": limits.rank}


def status_of_seat(seat: Seat) -> Status | None:
    """How its last asking ended; None where it was not asked, or given up."""
    return None if seat.ending is None or seat.phase is Phase.PENDING else seat.ending.status


def _row(seat: Seat) -> str:
    answer, given = seat.answer, (seat.ending.given if seat.ending else "") or "-"
    title = f"{seat.case.name}  {seat.case.title[:_TITLE_CHARACTERS]}"
    if seat.ending is not None and seat.ending.error:
        title = f"{seat.case.name}  {seat.ending.error}"
    total = answer.prompt_tokens + answer.generated_tokens
    return (
        f"{seat.number:>3} {seat.phase:<5} {answer.prompt_tokens:>7} {answer.generated_tokens:>7} {total:>7} "
        f"{given[:8]:<8} {seat.case.answer[:8]:<8} {title}"
    )


def _case(seat: Seat) -> dict[str, object]:
    ending, answer, status = seat.ending, seat.answer, status_of_seat(seat)
    return {
        "number": seat.number,
        "source": seat.case.source,
        "id": seat.case.id,
        "domain": seat.case.domain,
        "title": seat.case.title,
        "status": status,
        "given": ending.given if ending and status else "",
        "expected": seat.case.answer,
        "prompt_tokens": answer.prompt_tokens,
        "generated_tokens": answer.generated_tokens,
        "elapsed_s": round(ending.elapsed_s, 3) if ending else None,
        "think_mode": answer.think_mode,
        "think_close": asdict(answer.closed),
        "is_cut": answer.is_cut,
        "attempts": answer.num_attempts,
        "error": (ending.error or None) if ending else None,
    }
