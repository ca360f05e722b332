"""The ids of the tool calls in one answer.

Promises: unguessable, and in DeepSeek's form: `call_03_` and 24 characters; `call_03_ET_…` where a model that was to
think has thought nothing before the call, which official clients look for. Randomness is handed in. Spec: recipe.md 13.
"""

import secrets
import string
from collections.abc import Callable

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits


def random_call_suffix() -> str:
    """Twenty letters or digits, then four digits: about 130 random bits."""
    letters = "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(20))
    return letters + "".join(secrets.choice(string.digits) for _ in range(4))


class CallIds:
    """Gives each call of one answer its id; `suffix` is called once for each."""

    def __init__(self, *, is_thinking: bool, suffix: Callable[[], str] = random_call_suffix) -> None:
        self._is_thinking = is_thinking
        self._suffix = suffix
        self._has_thought = False
        self.given: dict[int, str] = {}

    def note_reasoning(self) -> None:
        """Some thinking was told."""
        self._has_thought = True

    def new(self, index: int) -> str:
        """The id of call number `index`, counted from 0."""
        mark = "ET_" if self._is_thinking and not self._has_thought else ""
        self.given[index] = f"call_{index:02d}_{mark}{self._suffix()}"
        return self.given[index]
