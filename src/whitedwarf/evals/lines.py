"""Lines of a numbered listing, as answers name them: "12", "12,14-15".

Promises: whatever is written, one normal form; ranges are never unfolded, so one up to a trillion costs nothing.
"""

import re
from dataclasses import dataclass

_DASH = "[-\N{EN DASH}\N{EM DASH}\N{NON-BREAKING HYPHEN}]"
_ONE = rf"[0-9]+(?:[ \t]*{_DASH}[ \t]*[0-9]+)?"
_SPEC = re.compile(rf"{_ONE}(?:[ \t]*,[ \t]*{_ONE})*")
_RANGE = re.compile(rf"([0-9]+)(?:[ \t]*{_DASH}[ \t]*([0-9]+))?")


@dataclass(frozen=True, slots=True)
class LineRange:
    """From the first to the last line, both in it."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def find_lines(text: str) -> str | None:
    """The first numbers, ranges and commas of `text` in normal form: no blanks, no leading zeros; None without any.

    "lines 012, 14 – 15" is "12,14-15". What follows after other words does not belong to it.
    """
    found = _SPEC.search(text)
    if found is None:
        return None
    return ",".join(dict.fromkeys(str(part) for part in _ranges(found[0])))


def names_right_lines(given: str, expected: str) -> bool:
    """Whether every line of `given` is one of `expected`, and there is one: some of the right lines are enough."""
    right = _joined(_ranges(expected))
    named = _ranges(given)
    return bool(named) and all(
        any(part.first <= one.first and one.last <= part.last for part in right) for one in named
    )


def _joined(parts: list[LineRange]) -> list[LineRange]:
    """Ranges that touch or overlap as one."""
    joined: list[LineRange] = []
    for part in sorted(parts, key=lambda one: one.first):
        if joined and part.first <= joined[-1].last + 1:
            joined[-1] = LineRange(joined[-1].first, max(joined[-1].last, part.last))
        else:
            joined.append(part)
    return joined


def _ranges(spec: str) -> list[LineRange]:
    return [_range(number(first), number(last or first)) for first, last in _RANGE.findall(spec)]


def _range(first: int, last: int) -> LineRange:
    return LineRange(min(first, last), max(first, last))


def number(digits: str) -> int:
    """Digits to a number; Python refuses to read thousands of them, so those are all one huge number."""
    return int(digits) if len(digits) <= 1000 else 10**1000
