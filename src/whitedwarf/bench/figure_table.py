"""Figures as a Markdown table, and such tables kept in a page between marks that say how they are made.

<!-- whitedwarf bench table benchmarks/results/FOLDER --kind peers -->
...
<!-- end of bench table -->
"""

import shlex
from collections.abc import Callable, Sequence

from whitedwarf.bench.results import Figure, Rate
from whitedwarf.errors import FileFormatError

OPENING, END = "<!-- whitedwarf bench table", "<!-- end of bench table -->"
_HEADER = "| model | what | ours, t/s | llama.cpp, t/s | ratio | of the limit |\n|---|---|--:|--:|--:|--:|"
_ABOUT = "Medians and quartiles. The limit of decode is the memory's speed, that of prefill the int8 arithmetic."


def table_text(figures: Sequence[Figure]) -> str:
    """A table for each machine, in Markdown."""
    by_machine: dict[str, list[Figure]] = {}
    for figure in figures:
        by_machine.setdefault(figure.machine, []).append(figure)
    return "\n\n".join(_table(machine, found) for machine, found in by_machine.items())


def renewed(page: str, make: Callable[[Sequence[str]], str], where: str) -> str:
    """The page with every table made again: `make` gets the words of its mark. FileFormatError without any."""
    parts: list[str] = []
    rest, count = page, 0
    while OPENING in rest:
        before, _, after = rest.partition(OPENING)
        words, close, inside = after.partition("-->")
        if not close or "\n" in words or END not in inside:
            raise FileFormatError(f"{where}: expected `{OPENING} ... -->` on one line and `{END}` after the table")
        parts += [before, OPENING, words, "-->\n\n", make(_split(words, where)), "\n\n", END]
        rest, count = inside.partition(END)[2], count + 1
    if not count:
        raise FileFormatError(f"{where}: no mark for a table in it; expected `{OPENING} FILES -->` and `{END}`")
    return "".join([*parts, rest])


def _split(words: str, where: str) -> list[str]:
    try:
        return shlex.split(words)
    except ValueError as error:
        raise FileFormatError(f"{where}: the mark `{OPENING}{words}-->` cannot be read ({error})") from error


def _table(machine: str, figures: Sequence[Figure]) -> str:
    days = sorted({figure.time[:10] for figure in figures if figure.time})
    measured = f", measured {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
    rows = "\n".join(_row(figure) for figure in figures)
    return f"{machine}{measured}. {_ABOUT}\n\n{_HEADER}\n{rows}"


def _row(figure: Figure) -> str:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    share = "" if figure.of_limit is None else f"{100 * figure.of_limit:.2g} %"
    theirs = "" if figure.theirs is None else rate_text(figure.theirs)
    return f"| {figure.model} | {figure.name} | {rate_text(figure.ours)} | {theirs} | {ratio} | {share} |"


def rate_text(rate: Rate) -> str:
    """Three digits, and the quartiles where they differ from it."""
    middle, low, high = (_digits(value) for value in (rate.middle, rate.low, rate.high))
    return middle if low == middle == high else f"{middle} ({low}–{high})"


def _digits(value: float) -> str:
    """At least three digits, no fewer than all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
