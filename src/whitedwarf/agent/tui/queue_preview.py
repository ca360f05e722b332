"""What waits to be said, above the editor: the oldest first, a line each."""

from textual.content import Content

from whitedwarf.agent.tui.shown import one_line, shortened

MOST_SHOWN = 3
_HINT = "  Ctrl+X takes it back"
_LABEL = 11  # cells of "queued 1: "


def queue_preview(waiting: tuple[str, ...], width: int, most: int = MOST_SHOWN) -> Content:
    """Empty when nothing waits; at most so many of them, and a line that counts the rest."""
    hint = _HINT if width >= 60 else ""
    lines = [
        Content.assemble(
            (f"queued {number}: ", "bold"),
            shortened(one_line(text), max(8, width - _LABEL - (len(hint) if number == 1 else 0))),
            (hint if number == 1 else "", "dim"),
        )
        for number, text in enumerate(waiting[:most], 1)
    ]
    if len(waiting) > most:
        lines.append(Content.styled(f"… and {len(waiting) - most} more", "dim"))
    return Content("\n").join(lines)
