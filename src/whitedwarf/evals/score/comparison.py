"""Two tables of scores side by side: what both have, and where they differ most (spec/product.md E.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.measuring import Score, Total, total_of

SHOWN = 8  # cases at either end
_SAME = 1e-9  # a difference of average nll that the tables' digits do not hold


@dataclass(frozen=True, slots=True)
class Change:
    """One case: average nll in both. Negative: the new one finds the continuation likelier."""

    id: str
    tokens: int
    old: float
    new: float

    @property
    def delta(self) -> float:
        return self.new - self.old

    def as_json(self) -> dict[str, float | int | str]:
        return asdict(self) | {"delta": self.delta}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The common cases."""

    old: Total
    new: Total
    changes: tuple[Change, ...]  # the most improved first
    old_only: int
    new_only: int

    @property
    def delta(self) -> float:
        """Of the average nll per token; negative is better."""
        return self.new.average_nll - self.old.average_nll

    @property
    def relative(self) -> float | None:
        """The delta as a share of the old average; None where that is nothing."""
        return self.delta / self.old.average_nll if self.old.average_nll else None

    def wins(self) -> tuple[int, int, int]:
        """Cases that the new one, the old one, and neither finds likelier."""
        new = sum(change.delta < -_SAME for change in self.changes)
        old = sum(change.delta > _SAME for change in self.changes)
        return new, old, len(self.changes) - new - old

    def best(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes[:SHOWN] if change.delta < -_SAME)

    def worst(self) -> tuple[Change, ...]:
        """The worst first."""
        return tuple(change for change in reversed(self.changes[-SHOWN:]) if change.delta > _SAME)

    def as_json(self) -> dict[str, object]:
        new, old, ties = self.wins()
        return {
            "cases": len(self.changes),
            "old_only": self.old_only,
            "new_only": self.new_only,
            "old": self.old.as_json(),
            "new": self.new.as_json(),
            "delta": self.delta,
            "relative": self.relative,
            "wins": {"new": new, "old": old, "ties": ties},
            "best": [change.as_json() for change in self.best()],
            "worst": [change.as_json() for change in self.worst()],
        }


def compare(old: Sequence[Score], new: Sequence[Score]) -> Comparison:
    """FileFormatError where no case is in both, or one is cut into other numbers of tokens: nothing to compare."""
    before, after = ({score.id: score for score in scores} for scores in (old, new))
    common = [case_id for case_id in before if case_id in after]
    if not common:
        raise FileFormatError("the two tables have no case in common; expected two runs over the same manifest")
    for case_id in common:
        counts = before[case_id].target_tokens, after[case_id].target_tokens
        if counts[0] != counts[1]:
            raise FileFormatError(
                f"{case_id} has {counts[0]} tokens in one table and {counts[1]} in the other: other continuations, or "
                "another tokenizer; score both models over the same manifest"
            )
    changes = [
        Change(case_id, before[case_id].target_tokens, before[case_id].average_nll, after[case_id].average_nll)
        for case_id in common
    ]
    return Comparison(
        total_of([before[case_id] for case_id in common]),
        total_of([after[case_id] for case_id in common]),
        tuple(sorted(changes, key=lambda change: (change.delta, change.id))),
        len(before) - len(common),
        len(after) - len(common),
    )


def report(found: Comparison) -> Iterator[str]:
    """Lines for people."""
    old, new = found.old, found.new
    only = f" ({found.old_only} only in the old, {found.new_only} only in the new)"
    yield f"cases {len(found.changes)}{only if found.old_only or found.new_only else ''}, {old.tokens} tokens"
    yield f"{'':<20} {'old':>12} {'new':>12} {'change':>12}"
    yield f"{'average nll':<20} {old.average_nll:>12.6f} {new.average_nll:>12.6f} {_change(found)}"
    first = new.first_matches - old.first_matches
    yield f"{'first token matches':<20} {old.first_matches:>12} {new.first_matches:>12} {first:>+12}"
    lcp = new.average_lcp - old.average_lcp
    yield f"{'greedy tokens':<20} {old.average_lcp:>12.3f} {new.average_lcp:>12.3f} {lcp:>+12.3f}"
    better, worse, ties = found.wins()
    yield f"likelier in the new {better}, in the old {worse}, the same {ties}"
    for title, changes in (("most improved", found.best()), ("most worsened", found.worst())):
        if changes:
            yield f"{title}:"
            yield from (
                f"  {change.delta:>+10.6f}  {change.old:>10.6f} -> {change.new:>10.6f}  {change.id}"
                for change in changes
            )


def _change(found: Comparison) -> str:
    share = "" if found.relative is None else f" ({found.relative:+.2%})"
    return f"{found.delta:>+12.6f}{share}"
