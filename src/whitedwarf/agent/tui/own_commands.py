"""The command that is the screen's own: /theme, and /help, which tells of it too. All others are passed on."""

from collections.abc import Mapping, Sequence

from whitedwarf.agent.tui.cockpit import Commands

HELP = "/help"
THEME = "/theme"


def words(commands: Commands) -> Mapping[str, str]:
    """All commands, ours included."""
    return {**commands.words, THEME: "show the themes, or choose one"}


def completions(commands: Commands, themes: Sequence[str], line: str) -> list[str]:
    """Whole lines that a beginning may become."""
    if line.startswith(f"{THEME} "):
        return [f"{THEME} {name}" for name in themes if f"{THEME} {name}".startswith(line)]
    found = list(commands.completions(line))
    if THEME.startswith(line) and line:
        found.append(THEME)
    return found
