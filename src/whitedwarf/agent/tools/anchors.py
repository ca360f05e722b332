"""Which bytes of a file an edit means: `old` as it stands, or from a head to a tail with `[upto]` between.

Promises: the bytes are named by exactly one place, else ToolError says why not and what to do. Where a file holds `old`
as it stands, `[upto]` in it is text like any other. Pure; knows no files.
"""

import re
from dataclasses import dataclass

from whitedwarf.agent.tool import ToolError

MARKER = b"[upto]"
LEAST_HEAD_BYTES = 64  # before a long `old` is cut short by itself
_MOST_PLACES = 6
_LINE_NUMBERS = re.compile(rb"^\d+[+-]? ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes [start, end) that an edit replaces."""

    start: int
    end: int
    is_anchored: bool = False


def find_span(data: bytes, old: bytes) -> Span:
    """What `old` means in a file's bytes."""
    if not old:
        raise ToolError("old is empty; give the text to replace. To insert, replace a line by itself and the new lines")
    if MARKER not in old or old in data:
        start = _only_place(data, old, "old")
        return Span(start, start + len(old))
    if old.count(MARKER) > 1:
        raise ToolError(f"old has {old.count(MARKER)} [upto]; exactly one may stand between its head and its tail")
    head, tail = old.split(MARKER)
    return _anchored(data, head, tail.lstrip(b"\r\n"))


def is_good_head(data: bytes, text: bytes) -> bool:
    """Whether an `old` that has come so far could go on with `[upto]`: whole lines, long enough, and only there."""
    if len(text) < LEAST_HEAD_BYTES or not text.endswith(b"\n") or MARKER in text:
        return False
    if sum(bool(line.strip()) for line in text.split(b"\n")) < 2:
        return False
    return len(_places(data, text, 2)) == 1


def line_of(data: bytes, place: int) -> int:
    """The number of the line, from 1, that holds the byte."""
    return data.count(b"\n", 0, place) + 1


def _anchored(data: bytes, head: bytes, tail: bytes) -> Span:
    if not head.strip():
        raise ToolError("nothing stands before [upto]; give the first line or lines of what is to be replaced")
    if not tail.strip():
        raise ToolError("nothing stands after [upto]; give the last line or lines of what is to be replaced")
    start = _only_place(data, head, "the head (what stands before [upto])")
    after = start + len(head)
    places = _places(data, tail, _MOST_PLACES, after)
    what = "the tail (what stands after [upto])"
    if not places:
        earlier = " It does occur before the head." if tail in data else _hint(data[after:], tail, line_of(data, after))
        raise ToolError(
            f"{what} does not occur after the head, which ends in line {line_of(data, after - 1)}.{earlier}"
        )
    if len(places) > 1:
        raise ToolError(
            f"{what} occurs more than once after the head: {_lines(data, places)}. "
            "Take a longer one that names a single place, such as two lines instead of a closing bracket"
        )
    return Span(start, places[0] + len(tail), is_anchored=True)


def _only_place(data: bytes, text: bytes, what: str) -> int:
    places = _places(data, text, _MOST_PLACES)
    if not places:
        raise ToolError(f"{what} does not occur in the file.{_hint(data, text)}")
    if len(places) > 1:
        raise ToolError(
            f"{what} occurs more than once: {_lines(data, places)}. Take more lines around it, until it names one place"
        )
    return places[0]


def _places(data: bytes, text: bytes, most: int, start: int = 0) -> list[int]:
    """Where it occurs, overlaps included."""
    places: list[int] = []
    place = data.find(text, start)
    while place >= 0 and len(places) < most:
        places.append(place)
        place = data.find(text, place + 1)
    return places


def _lines(data: bytes, places: list[int]) -> str:
    numbers = [str(line_of(data, place)) for place in places]
    if len(numbers) == _MOST_PLACES:
        numbers[-1] = "..."
    return f"in lines {', '.join(numbers)}"


def _hint(data: bytes, text: bytes, first_line: int = 1) -> str:
    """Why a text is not found that the model believes to have read; `data` begins with line `first_line`."""
    bare = _LINE_NUMBERS.sub(b"", text)
    if bare.strip() and bare != text and bare in data:
        return " Leave the line numbers out that read shows."
    if b"[upto]" not in text and b"upto" in text.lower():
        return " The mark is written [upto], in square brackets."
    lines, wanted = (b"\n".join(line.strip() for line in whole.split(b"\n")) for whole in (data, text.strip()))
    place = (b"\n" + lines + b"\n").find(b"\n" + wanted + b"\n")
    if place >= 0:
        line = lines.count(b"\n", 0, place) + first_line
        return f" The same words are in line {line} with other white space; read from there with raw and copy that."
    first = text.strip().split(b"\n")[0].strip()
    if len(first) > 3 and first in data:
        line = data.count(b"\n", 0, data.find(first)) + first_line
        return f" Its first line is in line {line}, but what follows there is different; read it again from there."
    return " Read the file again and copy from it exactly."
