"""Where JSON text goes wrong, in the words and with the positions of the official library (serde_json's).

Promises: linear time and memory in the text's length whatever it holds, no recursion. Reads only text that the fast
reader refused (json_body.py), so it is written for exactness. Columns count bytes (spec/recipe.md 2).
"""

import re
from dataclasses import dataclass, field

from whitedwarf.protocol.json_fault_scalars import Fault, number_end, string_end, word_end

MAX_TEXT_DEPTH = 127

_BLANKS = re.compile(rb"[ \t\n\r]*")
# Runs of simple scalars, each with its comma: nothing in them can be wrong, so they are stepped over at once.
_SIMPLE = rb'(?:"[ !#-[\]-~]*"|-?(?:0|[1-9][0-9]{0,17})|true|false|null)'
_SIMPLE_ITEMS = re.compile(rb"(?:\s*%s\s*,)*+".replace(rb"\s", rb"[ \t\n\r]") % _SIMPLE)
_SIMPLE_MEMBERS = re.compile(rb'(?:\s*"[ !#-[\]-~]*"\s*:\s*%s\s*,)*+'.replace(rb"\s", rb"[ \t\n\r]") % _SIMPLE)
_WORDS = {b"t": b"true", b"f": b"false", b"n": b"null"}


def first_fault(data: bytes) -> str | None:
    """What is wrong with text that is no JSON: `expected value at line 1 column 3`. None: nothing."""
    try:
        _Reader(data).read()
    except Fault as fault:
        line = data.count(b"\n", 0, fault.position) + 1
        column = fault.position - (data.rfind(b"\n", 0, fault.position) + 1)
        return f"{fault} at line {line} column {column}"
    return None


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0
    open: bytearray = field(default_factory=bytearray)  # the brackets around the current place

    def read(self) -> None:
        """One value and nothing after it."""
        self._value()
        while self.open:
            if self.open[-1] == ord("["):
                self._next_item()
            else:
                self._next_member()
        if self._peek():
            raise self._here("trailing characters")

    def _value(self) -> None:
        """A scalar, or the opening of an array or object."""
        first = self._peek()
        if first in (b"[", b"{"):
            self._open(first)
        elif first == b'"':
            self.at += 1
            self.at = string_end(self.data, self.at)
        elif first in _WORDS:
            self.at = word_end(self.data, self.at, _WORDS[first])
        elif first == b"-" or first.isdigit():
            self.at = number_end(self.data, self.at)
        else:
            raise self._here("expected value" if first else "EOF while parsing a value")

    def _open(self, bracket: bytes) -> None:
        if len(self.open) == MAX_TEXT_DEPTH:
            raise self._here("recursion limit exceeded")
        self.at += 1
        self.open += bracket
        close = b"]" if bracket == b"[" else b"}"
        match self._peek():
            case b"":
                raise self._here(f"EOF while parsing {'a list' if bracket == b'[' else 'an object'}")
            case first if first == close:
                self._close()
            case _ if bracket == b"[":
                self._value()
            case _:
                self._member()

    def _close(self) -> None:
        self.at += 1
        self.open.pop()

    def _next_item(self) -> None:
        """What follows an item: the end, or a comma and the next one."""
        match self._peek():
            case b"]":
                self._close()
            case b",":
                self._step_over(_SIMPLE_ITEMS, self.at + 1)
                if self._peek() == b"]":
                    raise self._here("trailing comma")
                self._value()
            case b"":
                raise self._here("EOF while parsing a list")
            case _:
                raise self._here("expected `,` or `]`")

    def _next_member(self) -> None:
        match self._peek():
            case b"}":
                self._close()
            case b",":
                self._step_over(_SIMPLE_MEMBERS, self.at + 1)
                if self._peek() == b"}":
                    raise self._here("trailing comma")
                self._member()
            case b"":
                raise self._here("EOF while parsing an object")
            case _:
                raise self._here("expected `,` or `}`")

    def _member(self) -> None:
        match self._peek():
            case b'"':
                self.at += 1
                self.at = string_end(self.data, self.at)
            case b"":
                raise self._here("EOF while parsing a value")
            case _:
                raise self._here("key must be a string")
        match self._peek():
            case b":":
                self.at += 1
                self._value()
            case b"":
                raise self._here("EOF while parsing an object")
            case _:
                raise self._here("expected `:`")

    def _peek(self) -> bytes:
        """The next byte that is no blank; nothing at the end."""
        self._step_over(_BLANKS, self.at)
        return self.data[self.at : self.at + 1]

    def _step_over(self, run: re.Pattern[bytes], start: int) -> None:
        found = run.match(self.data, start)
        self.at = found.end() if found else start

    def _here(self, message: str) -> Fault:
        """A fault in the byte at the current place (at the end: before it)."""
        return Fault(message, min(len(self.data), self.at + 1))
