"""The sessions on disk as lines for people (product.md C.9). Pure."""

from whitedwarf.agent.store import SHORT_ID, Listing, SessionEntry

_MB = 1 << 20
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))
_FIXED_COLUMNS = 56  # all but the title, and the edges of the screen


def list_text(listing: Listing, current_id: str, now: float, width: int = 100) -> str:
    """One line each: id, title, when it was last used, tokens, MB; the one we are in is marked, then what is wrong."""
    lines = [_line(entry, current_id, now, max(12, width - _FIXED_COLUMNS)) for entry in listing.entries]
    told = [f"not usable: {problem}" for problem in listing.problems]
    if listing.num_others:
        told.append(f"not shown: {listing.num_others} of other models")
    return "\n".join([*lines, *told]) or "No sessions are saved yet."


def age_text(seconds: float) -> str:
    """About, such as 5 min."""
    for unit, name in _AGES:
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return "now"


def _line(entry: SessionEntry, current_id: str, now: float, room: int) -> str:
    title = _clipped("".join(c if c.isprintable() else "·" for c in entry.title) or "(untitled)", room)
    is_here = entry.id == current_id
    state = "stripped" if entry.is_stripped and not is_here else ""  # ours is on its way to the disk
    size = f"{entry.size_bytes / _MB:.1f} MB"
    age = age_text(now - entry.last_used)
    line = f"{entry.id[:SHORT_ID]}  {title:<{room}} {age:>6} {entry.num_tokens:>7} tokens {size:>9} {state}"
    return ("*" if is_here else " ") + line.rstrip()


def _clipped(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
