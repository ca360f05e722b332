"""Lines from the user: with editing and a history on a terminal, plainly from anything else.

Promises: Ctrl+C at the prompt only clears the line, Ctrl+D ends. It does not know what lines mean.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from whitedwarf.agent.home import home

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings

HISTORY_NAME = ".whitedwarf_history"
PROMPT = "wd> "


def read_lines(prompt: str = PROMPT, history_name: str = HISTORY_NAME) -> Iterator[str]:
    """Every line (or several, pasted or joined with Alt+Enter) until the end of input; the history is in the home."""
    if is_interactive():
        return _edited_lines(prompt, home() / history_name)
    return (line.decode("utf-8", "replace").rstrip("\r\n") for line in sys.stdin.buffer)


def is_interactive() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_answer(question: str) -> str:
    """One line, which no history remembers; "" at the end of input."""
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    try:
        return session.prompt(question)
    except EOFError:
        return ""


def _edited_lines(prompt: str, history: Path) -> Iterator[str]:
    from prompt_toolkit import PromptSession  # a tenth of a second, and only people pay it

    from whitedwarf.cli.history import LineHistory

    session: PromptSession[str] = PromptSession(history=LineHistory(history), multiline=True, key_bindings=_keys())
    while True:
        try:
            yield session.prompt(prompt)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _keys() -> "KeyBindings":
    """Enter sends; Alt+Enter (or Escape, Enter) starts a new line."""
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
