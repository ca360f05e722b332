"""A body read as far as it is new: its history only from where it is no longer that of an earlier body.

Promises: the value that the plain reader (json_body.py) gives; NoHistoryError, or what the decoder raises, where that
has to look itself, because there is no history or something is wrong. Only objects are items of a history: their text
ends where they do, whatever follows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from json import JSONDecoder

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.body_memory import BodyMemory, History, KnownHistory

# Where a history begins, unless that stands within some other member. (Within a text the quotes would be escaped.)
_BEGINNING = re.compile(rb'"(messages|input)"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*')
_LAST_BRACKET = re.compile(r"\[[ \t\n\r]*\Z")
_BLANKS = re.compile(r"[ \t\n\r]*")
_NOTHING = KnownHistory(b"", [], [])


class NoHistoryError(ValueError):
    """A body without a history, or one that is not well-formed."""


@dataclass(frozen=True, slots=True)
class NewPart:
    """What was read of a body: the members, the new items under the history's name, and the text that spells it all."""

    members: dict[str, Json]
    texts: tuple[str, str]


def read_with_history(
    body: bytes, decoder: JSONDecoder, check: Callable[[NewPart], None], memory: BodyMemory
) -> dict[str, Json]:
    """The object that a body spells. `check` raises for what the decoder lets through; only what is new is checked."""
    reader = _Reader(body, decoder, memory)
    members = reader.read()
    check(reader.new_part)
    return members | {reader.name: reader.remembered()}


class _Reader:
    """Reads one body from left to right; `_text` and `_at` are what is left to read, and where."""

    def __init__(self, body: bytes, decoder: JSONDecoder, memory: BodyMemory) -> None:
        self._body = body
        self._memory = memory
        self._decoder = decoder
        beginning = _BEGINNING.search(body)
        if beginning is None:
            raise NoHistoryError("no history")
        self.name = beginning[1].decode()
        self._start = beginning.end()  # of the history, in bytes
        self._text = body[: self._start].decode()
        self._at = 0
        self._earlier = _NOTHING
        self._count = 0  # of the items that are known

    def read(self) -> dict[str, Json]:
        """All members, the history's place being taken by its new items."""
        members = self._before_history()
        head = self._text
        self._go_on_with_history()
        tail = self._text
        self._items, self._ends = self._new_items()
        members[self.name] = self._items
        members |= self._after_history()
        if members[self.name] is not self._items:
            raise NoHistoryError("two histories")
        self.new_part = NewPart(members, (head, tail))
        return members

    def remembered(self) -> History:
        """The whole history, which the memory has from now on."""
        earlier, count = self._earlier, self._count
        if count and not self._items and count == len(earlier.items):
            self._memory.keep(earlier, None)  # it was used
            return History(earlier)
        known = earlier.beginning(count)
        text = self._body[self._start : self._start + (self._ends or known.ends)[-1]]
        known = KnownHistory(text, known.ends + self._ends, known.items + self._items, known.readings)
        self._memory.keep(known, earlier if count == len(earlier.items) else None)
        return History(known)

    def _before_history(self) -> dict[str, Json]:
        members: dict[str, Json] = {}
        self._expect("{")
        while True:
            name = self._name()
            if _LAST_BRACKET.match(self._text, self._at):
                return members
            members[name] = self._value()
            self._skip()
            self._expect(",")

    def _go_on_with_history(self) -> None:
        """Goes to the end of what is known of the history."""
        end = 0
        if found := self._memory.closest(self._body, self._start):
            self._earlier, self._count = found
            end = self._earlier.ends[self._count - 1]
        self._text = self._body[self._start + end :].decode()
        self._at = 0

    def _new_items(self) -> tuple[list[Json], list[int]]:
        items: list[Json] = []
        ends: list[int] = []
        end = self._earlier.ends[self._count - 1] if self._count else 0
        begin = 0
        self._skip()
        while self._next() != "]":
            if items or self._count:
                self._expect(",")
            if self._next() != "{":
                raise NoHistoryError("an item that is no object")
            items.append(self._value())
            end += len(self._text[begin : self._at].encode())
            begin = self._at
            ends.append(end)
            self._skip()
        if not (items or self._count):
            raise NoHistoryError("an empty history")
        self._expect("]")
        return items, ends

    def _after_history(self) -> dict[str, Json]:
        if self._next() == ",":
            self._expect(",")
            if self._next() != '"':
                raise NoHistoryError("no member after a comma")
            members: dict[str, Json] = self._decoder.decode("{" + self._text[self._at :])
            return members
        self._expect("}")
        if self._at < len(self._text):
            raise NoHistoryError("something after the body")
        return {}

    def _name(self) -> str:
        if self._next() != '"':
            raise NoHistoryError("no member")
        name = self._value()
        self._skip()
        self._expect(":")
        return str(name)

    def _value(self) -> Json:
        value: Json
        value, self._at = self._decoder.raw_decode(self._text, self._at)
        return value

    def _expect(self, mark: str) -> None:
        """Reads a mark and the blanks after it."""
        if self._next() != mark:
            raise NoHistoryError(f"no {mark}")
        self._at += 1
        self._skip()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at
