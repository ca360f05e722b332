"""Where a prompt parts from the earlier one that it was compared with: a table for people. Pure.

Promises: `WINDOW` tokens before and after the first that differs, of both sides, one line each.
"""

import json
from collections.abc import Sequence

from whitedwarf.prompt.tokenizer import Ids, Tokenizer

WINDOW = 8


def parting_table(prompt: Ids, common: int, seen_next: Sequence[int], tokenizer: Tokenizer) -> str:
    """`prompt` begins like an earlier one for `common` tokens, after which that went on with `seen_next`."""
    if not seen_next:
        return ""
    ours = [int(token) for token in prompt[common : common + WINDOW]]
    lines = [f"first_difference: {common}\n"]
    for index in range(max(0, common - WINDOW), common):
        lines.append(_line(index, int(prompt[index]), int(prompt[index]), tokenizer))
    for offset in range(max(len(ours), len(seen_next[:WINDOW]))):
        lines.append(_line(common + offset, _at(ours, offset), _at(seen_next, offset), tokenizer))
    return "".join(lines)


def _at(ids: Sequence[int], offset: int) -> int | None:
    return ids[offset] if offset < len(ids) else None


def _line(index: int, ours: int | None, theirs: int | None, tokenizer: Tokenizer) -> str:
    shown = f"prompt={_shown(ours, tokenizer)} live={_shown(theirs, tokenizer)}"
    return f"  [{index}] {_mark(ours, theirs):<11} {shown}\n"


def _mark(ours: int | None, theirs: int | None) -> str:
    if ours is None:
        return "live-only"
    if theirs is None:
        return "prompt-only"
    return "==" if ours == theirs else "!="


def _shown(token: int | None, tokenizer: Tokenizer) -> str:
    if token is None:
        return "-"
    return f"{token} {json.dumps(tokenizer.decode([token]), ensure_ascii=False)}"
