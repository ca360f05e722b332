"""A unified diff as lines: what goes is red after "-", what comes is green after "+", with the numbers of lines."""

import re

from textual.content import Content

from whitedwarf.agent.tui.elements import marked
from whitedwarf.agent.tui.shown import TAB, shown

MOST_LINES = 2000  # of a diff are shown
GONE_STYLE = "$text-error on $error-muted"
NEW_STYLE = "$text-success on $success-muted"
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")


def diff_rows(diff: str) -> list[Content]:
    """One content per line of the diff; the names of the files are left out, since the panel has them."""
    rows: list[Content] = []
    old = new = 0
    is_inside = False
    *lines, rest = shown(diff).rstrip("\n").split("\n", MOST_LINES)
    for line in lines if len(lines) == MOST_LINES else [*lines, rest]:
        if hunk := _HUNK.match(line):
            old, new, is_inside = int(hunk[1]), int(hunk[2]), True
            if rows:
                rows.append(Content.styled("   ⋮", "dim"))
        elif not is_inside or line.startswith("\\"):
            continue
        elif line.startswith("-"):
            rows.append(gone(line[1:], old))
            old += 1
        elif line.startswith("+"):
            rows.append(new_line(line[1:], new))
            new += 1
        else:
            rows.append(_numbered(new, "  ") + Content.styled(line[1:].expandtabs(TAB), "dim"))
            old, new = old + 1, new + 1
    if len(lines) == MOST_LINES:
        rows.append(Content.styled(f"   … {rest.count(chr(10)) + 1} more lines", "dim"))
    return rows


def gone(text: str, number: int | None = None) -> Content:
    """A line that is not there any more."""
    return _numbered(number, "- ") + marked(Content(text.expandtabs(TAB) or " ")).stylize_before(GONE_STYLE)


def new_line(text: str, number: int | None = None) -> Content:
    """A line that was not there before."""
    return _numbered(number, "+ ") + Content(text.expandtabs(TAB) or " ").stylize_before(NEW_STYLE)


def _numbered(number: int | None, sign: str) -> Content:
    style = {"- ": "$text-error", "+ ": "$text-success"}.get(sign, "dim")
    before = f"{number:>4} " if number is not None else ""
    return Content.assemble((before, "dim"), (sign, style))
