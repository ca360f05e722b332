"""The text parameters of calls while they are written: fragments of a JSON object to the decoded text of its strings.

Promises: however the same JSON is cut into fragments, also within an escape or between the halves of a surrogate pair,
the same texts come out, and each piece as soon as it is known. Only strings directly in the object are text parameters;
other values are passed over. Half a surrogate pair becomes U+FFFD. Broken JSON gives nothing more, and raises nothing.
"""

import re
from collections.abc import Callable

from whitedwarf.agent.events import ParameterText
from whitedwarf.conversation.events import ArgumentsDelta

_PLAIN = re.compile(r'[^"\\]+')
_SKIPPED = re.compile(r'[^"{}\[\],]+')
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = 4
_UNREADABLE = "\ufffd"


class _Text:
    """The inside of one JSON string, fed from its opening quote on."""

    def __init__(self) -> None:
        self._escape = ""  # an escape that is not complete
        self._high = 0  # the first half of a surrogate pair
        self.is_closed = False

    def read(self, text: str, place: int) -> tuple[str, int]:
        """What `text` gives from `place` on, and the place behind it: the end, or behind the closing quote."""
        pieces: list[str] = []
        while place < len(text) and not self.is_closed:
            if self._escape:
                pieces.append(self._continue_escape(text[place]))
                place += 1
            elif plain := _PLAIN.match(text, place):
                pieces += [self._unpaired(), plain[0]]
                place = plain.end()
            else:
                self._escape = "\\" if text[place] == "\\" else ""
                self.is_closed = not self._escape
                pieces.append(self._unpaired() if self.is_closed else "")
                place += 1
        return "".join(pieces), place

    def _continue_escape(self, character: str) -> str:
        self._escape += character
        if self._escape[1] != "u":
            self._escape = ""
            return self._unpaired() + _SIMPLE.get(character, character)
        if len(self._escape) < 2 + _HEX_DIGITS:
            return ""
        digits, self._escape = self._escape[2:], ""
        try:
            return self._unit(int(digits, 16))
        except ValueError:
            return self._unpaired() + _UNREADABLE

    def _unit(self, unit: int) -> str:
        """One UTF-16 code unit."""
        if 0xDC00 <= unit <= 0xDFFF and self._high:
            code = 0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00)
            self._high = 0
            return chr(code)
        before = self._unpaired()
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
            return before
        return before + (_UNREADABLE if 0xDC00 <= unit <= 0xDFFF else chr(unit))

    def _unpaired(self) -> str:
        high, self._high = self._high, 0
        return _UNREADABLE if high else ""


class ObjectReader:
    """One JSON object; `tell` hears the name of a text member, more of its text, and whether that was all."""

    def __init__(self, tell: Callable[[str, str, bool], None]) -> None:
        self._tell = tell
        self._depth = 0  # of brackets; members of the object itself are at 1
        self._text: _Text | None = None  # the open string
        self._key: list[str] = []
        self._is_value = False  # a key came, its value is next
        self._has_text = False  # ...and something of it came

    def feed(self, fragment: str) -> None:
        """More of the object."""
        place = 0
        while place < len(fragment):
            if self._text is not None:
                place = self._read_string(self._text, fragment, place)
            else:
                skipped = _SKIPPED.match(fragment, place)
                if skipped:
                    self._is_value = self._is_value or (self._depth == 1 and ":" in skipped[0])
                    place = skipped.end()
                else:
                    self._structure(fragment[place])
                    place += 1

    def _structure(self, character: str) -> None:
        if character == '"':
            self._text = _Text()
            if self._depth == 1 and not self._is_value:
                self._key.clear()
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
        elif self._depth == 1:
            self._is_value = False

    def _read_string(self, string: _Text, fragment: str, place: int) -> int:
        text, place = string.read(fragment, place)
        if string.is_closed:
            self._text = None
        if self._depth == 1 and not self._is_value:
            self._key.append(text)
        elif self._depth == 1 and (text or string.is_closed):
            self._tell("".join(self._key), text, string.is_closed)
        return place


class ParameterReader:
    """The calls of one answer; `complete` holds the text parameters of the open call that were closed."""

    def __init__(self) -> None:
        self.complete: dict[str, str] = {}
        self.parameter = ""
        """The open text parameter, once something of it has come; empty where none is open."""
        self._pieces: list[str] = []
        self.index = -1
        self._object = ObjectReader(self._hear)
        self._told: list[ParameterText] = []

    def feed(self, delta: ArgumentsDelta) -> list[ParameterText]:
        """What a fragment of the arguments tells."""
        if delta.index != self.index:
            self._begin(delta.index)
        self._object.feed(delta.json_fragment)
        told, self._told = self._told, []
        return told

    def _begin(self, index: int) -> None:
        self.index = index
        self.complete = {}
        self._object = ObjectReader(self._hear)
        self._pieces.clear()
        self.parameter = ""

    def _hear(self, name: str, text: str, is_closed: bool) -> None:
        self._told.append(ParameterText(self.index, name, text, is_closed))
        if text:
            self._pieces.append(text)
        self.parameter = name
        if is_closed:
            self.complete[name] = "".join(self._pieces)
            self._pieces.clear()
            self.parameter = ""
