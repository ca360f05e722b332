"""Which way of talking to the agent flags and terminal ask for. What contradicts is told before a model loads."""

import os
import shutil
import sys
from dataclasses import fields
from enum import Enum, auto

from whitedwarf.config import AgentFlags, ModelSettings, SteeringSettings
from whitedwarf.errors import UsageError

_LEAST_COLUMNS, _LEAST_ROWS = 20, 8
_OF_A_SERVER = {"--model-name": "model_name", "--api-key-env": "api_key_env", "--extra-body": "extra_body"}


class Mode(Enum):
    """How a person or a program talks to the agent."""

    SCREEN = auto()
    PLAIN = auto()
    PRINT = auto()
    LINES = auto()  # the protocol for scripts
    ONE_TURN = auto()  # the same with --prompt


def chosen_mode(flags: AgentFlags, text: str | None) -> Mode:
    """UsageError for flags that exclude each other, or a mode without what it needs."""
    ways = {"--print": flags.print, "--non-interactive": flags.non_interactive, "--plain": flags.plain}
    given = [flag for flag, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other: give one")
    if flags.session is not None and flags.continue_:
        raise UsageError("--session and --continue exclude each other: give one")
    if flags.print:
        if text is None and sys.stdin.isatty():
            raise UsageError("--print needs a prompt: give -p TEXT, --prompt-file FILE, or a text on standard input")
        return Mode.PRINT
    if flags.non_interactive:
        return Mode.LINES if text is None else Mode.ONE_TURN
    return Mode.PLAIN if flags.plain or not has_screen() else Mode.SCREEN


def has_screen() -> bool:
    """Whether a terminal is at all ends that is large and able enough; the screen is drawn on standard error."""
    if not all(end.isatty() for end in (sys.stdin, sys.stdout, sys.stderr)) or os.environ.get("TERM") in (
        None,
        "",
        "dumb",
    ):
        return False
    size = shutil.get_terminal_size()
    return size.columns >= _LEAST_COLUMNS and size.lines >= _LEAST_ROWS


def check_for_server(flags: AgentFlags, model: ModelSettings, steering: SteeringSettings) -> None:
    """UsageError for what only a model in this process can do beside --url, and the other way round."""
    if flags.url is None:
        for flag, name in _OF_A_SERVER.items():
            if getattr(flags, name) is not None:
                raise UsageError(f"{flag} is for a server: give its --url")
        return
    if flags.session is not None or flags.continue_:
        raise UsageError("--session and --continue need a model in this process: a server keeps no sessions for us")
    changed = [name for name in _changed(model) if name != "context"]
    given = [f"--{name.replace('_', '-')}" for name in changed] + ["--dir-steering-…" for _ in _changed(steering)][:1]
    if given:
        raise UsageError(f"{given[0]} is for a model in this process, not for a server: leave it or --url out")


def _changed(settings: ModelSettings | SteeringSettings) -> list[str]:
    """Fields that have other than their default values."""
    plain = type(settings)()
    return [field.name for field in fields(settings) if getattr(settings, field.name) != getattr(plain, field.name)]
