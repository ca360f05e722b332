"""What a change of a file looks like, for people: a unified diff that takes bounded time and has a bounded length.

What both texts begin and end with is left out before anything is compared; where very many lines changed, they are
shown as all removed and all added.
"""

import difflib
from collections.abc import Iterator, Sequence

CONTEXT = 3
MAX_DIFF_LINES = 2000
MAX_LINE_CHARS = 10_000
MAX_DIFF_CHARS = 1 << 18  # about: what exceeds it is shown to the end of its line
_MOST_COMPARED = 1_000_000  # product of the numbers of lines: difflib is quadratic
_NO_LINE_END = "\\ No newline at end of file"

_Opcode = tuple[str, int, int, int, int]


def unified_diff(before: str | None, after: str, path: str) -> str:
    """Empty for equal texts. `before` is None for a new file."""
    if before == after:
        return ""
    old, new = _lines(before or ""), _lines(after)
    rows = [f"--- {'/dev/null' if before is None else 'a/' + path}", f"+++ b/{path}"]
    for group in _groups(old, new):
        rows += _hunk(old, new, group)
        if len(rows) > MAX_DIFF_LINES:
            break
    return "\n".join(_bounded(rows)) + "\n"


def _bounded(rows: Sequence[str]) -> Iterator[str]:
    chars = 0
    for number, row in enumerate(rows):
        if number == MAX_DIFF_LINES or chars > MAX_DIFF_CHARS:
            yield "... more changes are not shown"
            return
        chars += min(len(row), MAX_LINE_CHARS)
        left = len(row) - MAX_LINE_CHARS
        yield row if left <= 0 else f"{row[:MAX_LINE_CHARS]} ... {left} more characters are not shown"


def _lines(text: str) -> list[str]:
    pieces = text.split("\n")
    return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[_Opcode]]:
    """Opcodes of whole texts, as difflib.SequenceMatcher.get_grouped_opcodes."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    begin = max(0, head - CONTEXT)
    old_end, new_end = (len(lines) - max(0, tail - CONTEXT) for lines in (old, new))
    if (len(old) - head - tail) * (len(new) - head - tail) > _MOST_COMPARED:
        yield [
            ("equal", begin, head, begin, head),
            ("replace", head, len(old) - tail, head, len(new) - tail),
            ("equal", len(old) - tail, old_end, len(new) - tail, new_end),
        ]
        return
    matcher = difflib.SequenceMatcher(None, old[begin:old_end], new[begin:new_end])
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield [(tag, a + begin, b + begin, c + begin, d + begin) for tag, a, b, c, d in group]


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[_Opcode]) -> list[str]:
    first, last = group[0], group[-1]
    rows = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"]
    for tag, old_start, old_end, new_start, new_end in group:
        if tag == "equal":
            rows += _signed(" ", old[old_start:old_end])
        else:
            rows += _signed("-", old[old_start:old_end])
            rows += _signed("+", new[new_start:new_end])
    return rows


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}" if count != 1 else f"{start + 1}"


def _signed(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_LINE_END
