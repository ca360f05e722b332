"""Pictures of scripted sessions. `pictures.py golden` writes the texts that the tests compare with,
`… svg FOLDER` pictures to look at; rsvg-convert makes PNG of them.
"""

import re
import sys
from pathlib import Path

from agent.tui.screen import Screen, on_screen
from agent.tui.sessions import PROMPT, SESSIONS

SIZES = ((80, 24), (120, 40), (200, 60))
GOLDEN = Path(__file__).parent / "golden"
_TRUE_WHEN_SEEN = {
    "idle": "ready",
    "reading": "reading",
    "thinking": "thinking",
    "tool": "## Lic",
    "approval": "Allow",
    "queue": "queued 1",
    "compaction": "12900",
    "error": "out of memory",
}


def picture(name: str, size: tuple[int, int], svg: bool = False) -> str:
    """The screen of a session as text, or as SVG."""
    taken: list[str] = []

    async def steps(screen: Screen) -> None:
        await screen.send(PROMPT)
        await screen.shows(_TRUE_WHEN_SEEN[name])
        screen.editor.cursor_blink = False
        await screen.quiet()
        taken.append(_svg(screen) if svg else "\n".join(screen.rows) + "\n")

    on_screen(steps, SESSIONS[name], size=size)
    return taken[0]


def _svg(screen: Screen) -> str:
    """With spaces that every viewer keeps."""
    drawn = screen.app.export_screenshot(title="whitedwarf agent")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # from the net
    return drawn.replace("&#160;", " ").replace("<text ", '<text xml:space="preserve" ')


def golden_path(name: str, size: tuple[int, int]) -> Path:
    """Where the text of a picture is kept."""
    return GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"


def main() -> None:
    """Write them."""
    if sys.argv[1:2] == ["golden"]:
        for name in SESSIONS:
            for size in SIZES:
                golden_path(name, size).write_text(picture(name, size), encoding="utf-8")
        return
    folder = Path(sys.argv[2])
    for name in sys.argv[3:] or SESSIONS:
        for size in SIZES:
            (folder / f"{name}-{size[0]}x{size[1]}.svg").write_text(picture(name, size, svg=True), encoding="utf-8")


if __name__ == "__main__":
    main()
