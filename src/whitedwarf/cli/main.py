"""The entry point: finds the command, runs it, and turns what went wrong into one line and an exit code.

Promises: 0 done, 1 the work failed, 2 the arguments are wrong, 130 interrupted; no traceback for anything the user may
have caused. Imports nothing heavy before a command is known.
"""

import contextlib
import io
import os
import sys
from pathlib import Path

from whitedwarf.cli.commands import COMMANDS, find_command, help_text
from whitedwarf.cli.one_line import one_line
from whitedwarf.errors import UsageError, WhitedwarfError

HELP_FLAGS = ("--help", "-h")
FAILED, WRONG_ARGUMENTS, INTERRUPTED = 1, 2, 130
_NO_MEMORY = (
    "out of memory: use a smaller --ctx or --prefill-chunk, stop other programs, or raise the limit (ulimit -v)"
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        if arguments is None:
            _leave_signals_to_the_system()


def _run(words: list[str]) -> int:
    _replace_closed_streams()
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
    except MemoryError:
        return _complain(WhitedwarfError(_NO_MEMORY), FAILED)
    except OSError as error:  # a full disk behind a redirected stdout, a file that went away
        _silence_stdout()
        return _complain(WhitedwarfError(str(error)), FAILED)
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
    with contextlib.suppress(OSError):  # nobody listens: the exit code still tells
        print(f"whitedwarf: {one_line(str(error))}", file=sys.stderr)
    return code


def _replace_closed_streams() -> None:
    # Started with `<&-`, `>&-` or `2>&-`, Python has None in their places, and print() would take stdout for stderr.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _tolerate_foreign_encodings() -> None:
    # A terminal that cannot show a character shows "?" instead of ending the program.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _leave_signals_to_the_system() -> None:
    # Another Ctrl+C while the interpreter is tidied up ends it at once instead of showing where it was.
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _silence_stdout() -> None:
    # The reader is gone; without this, the interpreter's last flush would complain once more.
    with contextlib.suppress(io.UnsupportedOperation):  # captured in a test: no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
