"""The plain text that a custom tool takes, out of the JSON arguments in which the model writes it.

Promises: the value of a leading `input` argument is given out live, unescaped, the same however the JSON was cut; an
argument of another name is found when the call is complete. Does not know any dialect. Spec: demand.md P23.
"""

import json
import re
from enum import Enum, auto

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.json_body import read_json

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_LONGEST_OPENING = 64  # characters; blanks beyond this are no model's habit
# As much of a JSON string as can be read on its own; half of a surrogate pair waits for what follows it.
_READABLE = re.compile(
    r"""(?: [^"\\]++
          | \\["\\/bfnrt]
          | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
          | \\u[dD][89abAB][0-9a-fA-F]{2} (?: \\u[0-9a-fA-F]{4} | (?=[^\\]) | (?=\\[^u]) )
        )*+""",
    re.VERBOSE,
)


class _Phase(Enum):
    OPENING = auto()
    STRING = auto()
    CLOSED = auto()
    UNKNOWN = auto()  # the arguments begin in some other way


class PlainInput:
    """The input of one call."""

    def __init__(self) -> None:
        self._phase = _Phase.OPENING
        self._held = ""

    def take(self, fragment: str) -> str:
        """More JSON text of the arguments; what it adds to the input."""
        if self._phase in (_Phase.CLOSED, _Phase.UNKNOWN):
            return ""
        self._held += fragment
        if self._phase is _Phase.OPENING:
            self._open()
        return self._read() if self._phase is _Phase.STRING else ""

    def finish(self, arguments: str) -> str:
        """The call is complete, with these arguments; what is still missing of the input."""
        if self._phase in (_Phase.STRING, _Phase.CLOSED):
            return ""
        self._phase = _Phase.CLOSED
        return plain_input(arguments)

    def _open(self) -> None:
        found = _OPENING.match(self._held)
        if found is not None:
            self._phase = _Phase.STRING
            self._held = self._held[found.end() :]
        elif len(self._held) > _LONGEST_OPENING:
            self._phase = _Phase.UNKNOWN

    def _read(self) -> str:
        found = _READABLE.match(self._held)
        assert found is not None  # it may be empty
        self._held = self._held[found.end() :]
        if self._held.startswith('"'):
            self._phase = _Phase.CLOSED
        text: str = json.loads(f'"{found.group()}"', strict=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain_input(arguments: str) -> str:
    """The `input` argument, or else the first that is a text, or else the arguments as they are."""
    try:
        values = read_json(arguments)
    except MalformedRequest:
        return arguments
    if not isinstance(values, dict):
        return arguments
    named: Json = values.get("input")
    texts = (value for value in [named, *values.values()] if isinstance(value, str))
    return next(texts, arguments)
