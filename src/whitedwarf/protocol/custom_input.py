"""The plain input of a custom tool's call, taken out of the JSON arguments that the model writes.

Models call every tool with an object; a custom tool has one text instead, which is the member `input`. Promises: text
is told as soon as it cannot change; nothing of an input is lost; what has no such form is told as it came. Officially
only a leading `{"input": "` counts (spec/recipe.md 13); otherwise an input that is not the first member, or the only
one under another name, is found too, once the call is complete. Does not know events or items.
"""

import json
import re
from enum import Enum, auto

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.arguments import parse_arguments

_HEAD = '{"input":"'
_BLANKS = " \t\n\r"
_BLANKS_MAY_PRECEDE = (0, 1, 8, 9)  # the brace, the key, the colon and the value

_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_PIECE = re.compile(
    rf"""(?P<plain>[^"\\]+)
    |(?P<end>")
    |(?P<escape>{_HIGH}{_LOW}|\\u(?![dD][89a-fA-F]){_HEX}{{4}}|\\["\\/bfnrt])
    |(?P<unfinished>(?:{_HIGH})?\\(?:u{_HEX}{{0,3}})?\Z|{_HIGH}\Z)
    |(?P<wrong>(?:{_HIGH})?\\u{_HEX}{{0,3}}[^0-9a-fA-F]|{_HIGH}\\u{_HEX}{{4}}|{_HIGH}\\[^u]|{_HIGH}[^\\]|{_LOW}|\\[^u])
    """,
    re.VERBOSE | re.DOTALL,
)


class _Place(Enum):
    HEAD = auto()  # not yet known whether an input comes
    INPUT = auto()
    AFTER_INPUT = auto()
    RAW = auto()  # there is no input: everything is told
    UNDECIDED = auto()  # there may be an input further on


class CustomInput:
    """One call's input, fed with the fragments of its arguments."""

    def __init__(self, *, only_leading: bool) -> None:
        self._only_leading = only_leading
        self._place = _Place.HEAD
        self._matched = 0  # of the head
        self._held: list[str] = []

    def feed(self, fragment: str) -> str:
        """The input that this fragment tells; empty where it tells none yet."""
        match self._place:
            case _Place.HEAD:
                return self._read_head(fragment)
            case _Place.INPUT:
                return self._read_input(fragment)
            case _Place.RAW:
                return fragment
            case _Place.UNDECIDED:
                self._held.append(fragment)
        return ""

    def finish(self, *, is_complete: bool) -> str:
        """The rest of the input; arguments that were cut off are no object to look for an input in."""
        held = self._taken()
        if self._place is _Place.UNDECIDED and is_complete:
            return _input_in(held)
        return "" if self._place is _Place.AFTER_INPUT else held

    def _taken(self) -> str:
        held = "".join(self._held)
        self._held.clear()
        return held

    def _read_head(self, fragment: str) -> str:
        self._held.append(fragment)
        for index, character in enumerate(fragment):
            if character == _HEAD[self._matched]:
                self._matched += 1
                if self._matched == len(_HEAD):
                    self._held.clear()
                    self._place = _Place.INPUT
                    return self._read_input(fragment[index + 1 :])
            elif character not in _BLANKS or self._matched not in _BLANKS_MAY_PRECEDE:
                return self._without_input()
        return ""

    def _without_input(self) -> str:
        if not self._only_leading:
            self._place = _Place.UNDECIDED
            return ""
        self._place = _Place.RAW
        return self._taken()

    def _read_input(self, fragment: str) -> str:
        text = self._taken() + fragment
        told = []
        for piece in _PIECE.finditer(text):
            match piece.lastgroup:
                case "end":
                    self._place = _Place.AFTER_INPUT
                    break
                case "unfinished":
                    self._held.append(piece[0])
                case "escape":
                    told.append(json.loads(f'"{piece[0]}"'))
                case _:
                    told.append(piece[0])
        return "".join(told)


def _input_in(arguments: str) -> str:
    members = parse_arguments(arguments)
    if members is None:
        return arguments
    if not members:
        return ""
    value: Json = members.get("input")
    if value is None and len(members) == 1:
        (value,) = members.values()
    return value if isinstance(value, str) else arguments
