"""The entry point: finds the command, runs it, and turns what went wrong into one line and an exit code.

Promises: 0 done, 1 the work failed, 2 the arguments are wrong, 130 interrupted; no traceback for anything the user may
have caused. Imports nothing heavy before a command is known.
"""

import io
import os
import sys

from whitedwarf.cli.commands import COMMANDS, find_command, help_text
from whitedwarf.errors import UsageError, WhitedwarfError

HELP_FLAGS = ("--help", "-h")
FAILED, WRONG_ARGUMENTS, INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    _tolerate_foreign_encodings()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except UsageError as error:
        return _complain(error, WRONG_ARGUMENTS)
    except WhitedwarfError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return FAILED
    return code


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in HELP_FLAGS:
        print(help_text())
        return 0
    if words == ["--version"]:
        return _print_version()
    command = find_command(words)
    if command is None:
        return _without_command(words)
    from whitedwarf.cli.parsing import run_command  # brings cyclopts

    return run_command(command, words[len(command.name.split(" ")) :])


def _without_command(words: list[str]) -> int:
    groups = {command.name.partition(" ")[0] for command in COMMANDS if " " in command.name}
    if words[0] in groups:
        if len(words) == 1 or words[1] in HELP_FLAGS:
            print(help_text(words[0]))
            return 0
        words = [" ".join(words[:2])]
    import difflib

    close = difflib.get_close_matches(words[0], [command.name for command in COMMANDS], 1)
    hint = f"did you mean {close[0]!r}?" if close else "`whitedwarf --help` lists the commands"
    raise UsageError(f"unknown command {words[0]!r}; {hint}")


def _print_version() -> int:
    from whitedwarf import __version__

    print(f"whitedwarf {__version__}")
    return 0


def _complain(error: WhitedwarfError, code: int) -> int:
    print(f"whitedwarf: {error}", file=sys.stderr)
    return code


def _tolerate_foreign_encodings() -> None:
    # A terminal that cannot show a character shows "?" instead of ending the program.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _silence_stdout() -> None:
    # The reader is gone; without this, the interpreter's last flush would complain once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
