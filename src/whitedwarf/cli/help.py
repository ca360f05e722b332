"""How a command's help looks: a title per group, then two columns; bold and colour only on a terminal.

rich is imported when help is asked for: every other run would pay a twentieth of a second for it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions, RenderableType

NAME_COLUMN = 24
_UNINTERESTING = ("False", "None", '""')  # defaults that say nothing


class TwoColumns:
    """A HelpFormatter of cyclopts."""

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: "RenderableType") -> None:
        """The first line."""
        console.print("Usage:", usage)

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """One group of options."""
        from cyclopts.help.specs import DescriptionRenderer, NameRenderer
        from rich.padding import Padding
        from rich.table import Table

        if not panel.entries:
            return
        names, descriptions = NameRenderer(max_width=NAME_COLUMN), DescriptionRenderer()
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=NAME_COLUMN, style="cyan")
        table.add_column()
        for entry in map(_without_empty_default, panel.entries):
            table.add_row(names(entry), descriptions(entry))
        console.print(panel.title, style="bold", end=":\n")
        console.print(Padding(table, (0, 0, 1, 2)))


def _without_empty_default(entry: "HelpEntry") -> "HelpEntry":
    return entry.copy(default=None) if entry.default in _UNINTERESTING else entry
