"""How a command's help looks: a title per group, then two columns; bold and colour only on a terminal.

Names are never broken: one that is too long for its column has a line of its own.

rich is imported when help is asked for: every other run would pay a twentieth of a second for it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

NAME_COLUMN = 24
INDENT = 2
_UNINTERESTING = ("False", "None", '""', "()")  # defaults that say nothing


class TwoColumns:
    """A HelpFormatter of cyclopts."""

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: "RenderableType") -> None:
        """The first line."""
        console.print("Usage:", usage)

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """One group of options."""
        from cyclopts.help.specs import DescriptionRenderer, NameRenderer
        from rich.padding import Padding
        from rich.text import Text

        if not panel.entries:
            return
        names, descriptions = NameRenderer(), DescriptionRenderer()
        console.print(panel.title, style="bold", end=":\n")
        for entry in map(_without_empty_default, panel.entries):
            name, described = str(names(entry)), descriptions(entry)
            if len(name) > NAME_COLUMN:
                console.print(Padding(Text(name, style="cyan"), (0, 0, 0, INDENT)), soft_wrap=True)
                name = ""
            console.print(Padding(_row(name, described), (0, 0, 0, INDENT)))
        console.print()


def _row(name: str, described: "RenderableType") -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=NAME_COLUMN, style="cyan")
    table.add_column()
    table.add_row(name, described)
    return table


def _without_empty_default(entry: "HelpEntry") -> "HelpEntry":
    return entry.copy(default=None) if entry.default in _UNINTERESTING else entry
