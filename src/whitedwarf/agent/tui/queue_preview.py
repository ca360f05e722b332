"""What waits to be said, above the editor: the oldest first, a line each."""

from textual.content import Content

from whitedwarf.agent.tui.shown import one_line, shortened

MOST_SHOWN = 3
_HINT = "  Ctrl+X takes it back"
_LABEL = 11  # cells of "queued 1: "


def queue_preview(waiting: tuple[str, ...], width: int) -> Content:
    """Empty when nothing waits."""
    hint = _HINT if width >= 60 else ""
    lines = [
        Content.assemble(
            (f"queued {number}: ", "bold"),
            shortened(one_line(text), max(8, width - _LABEL - (len(hint) if number == 1 else 0))),
            (hint if number == 1 else "", "dim"),
        )
        for number, text in enumerate(waiting[:MOST_SHOWN], 1)
    ]
    if len(waiting) > MOST_SHOWN:
        lines.append(Content.styled(f"… and {len(waiting) - MOST_SHOWN} more", "dim"))
    return Content("\n").join(lines)
