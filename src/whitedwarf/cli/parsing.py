"""From the words of a command line to a call of the command's function, through cyclopts.

Promises: what cyclopts refuses becomes a UsageError; cyclopts prints nothing itself but help.
"""

import shlex
from importlib import import_module

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from whitedwarf.cli.commands import Command
from whitedwarf.cli.help import TwoColumns
from whitedwarf.errors import UsageError


def run_command(command: Command, words: list[str]) -> int:
    """Parse and run; the function's exit code, 0 when it returns none."""
    name = f"whitedwarf {command.name}"
    app = App(
        name=name,
        version_flags=(),
        result_action="return_value",
        help_formatter=TwoColumns(),
        default_parameter=Parameter(negative=()),  # a flag is off unless given: no --no-quality
    )
    app["--help"].group = "Help"
    app.default(import_module(command.module).command)
    try:
        code = app(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(f"{_one_line(error)} `{name} --help` lists the options.") from error
    return int(code or 0)


def _one_line(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"expected no more words, got {shlex.join(error.unused_tokens)}."
    text = " ".join(str(error).split())
    return text if text.endswith((".", "?", "!")) else f"{text}."
