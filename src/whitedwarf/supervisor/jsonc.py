"""JSON as people write it: with `//` and `/* */` comments and a comma after the last member.

Promises: whatever is wrong is told with its line and column; a name that stands twice in one object is refused, since
one of the two would be lost; numbers are finite; nesting is bounded. Does not know what the values mean.
"""

import json
import re
from typing import NoReturn, TypeAlias

from whitedwarf.errors import UsageError

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

DEEPEST = 64
_SPACE = re.compile(r"[ \t\r\n]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_TEXT_FAULTS = {  # by what json says
    "unterminated": 'this text has no " at its end',
    "control": "a text ends on the line where it begins: write \\n for a new line and \\t for a tab",
    "escape": "a backslash is written \\\\ in a text; paths may have / in its place",
    "": "this text is not right",
}
_DECODER = json.JSONDecoder()
_MOST_DIGITS = 400  # longer whole numbers cost time and mean nothing here
_SHOWN = 20


def parse_jsonc(text: str) -> Json:
    """The value that the text holds; UsageError "line 3, column 7: …" where it holds none."""
    reader = _Reader(text.removeprefix("\ufeff"))
    value = reader.value(0)
    reader.skip()
    if reader.at < len(reader.text):
        reader.refuse("the end of the file")
    return value


class _Reader:
    """Recursive descent; `at` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        """Over white space and comments."""
        while found := _SPACE.match(self.text, self.at):
            self.at = found.end()
        if self.text.startswith("/*", self.at):
            self.refuse("*/ at the end of this comment", "the end of the file")

    def value(self, depth: int) -> Json:
        """The next one."""
        self.skip()
        if depth > DEEPEST:
            self.refuse(f"at most {DEEPEST} levels of {{ and [", "more")
        first = self._next()
        if first == "{":
            return self._members(depth)
        if first == "[":
            return self._items(depth)
        if first == '"':
            return self._string()
        if first == "-" or first.isdecimal():
            return self._number()
        return self._word()

    def _members(self, depth: int) -> dict[str, Json]:
        members: dict[str, Json] = {}
        self.at += 1
        while not self._closes("}"):
            if self._next() != '"':
                self.refuse('a name in double quotes or "}"')
            start, name = self.at, self._string()
            if name in members:
                self.at = start
                self._fail(f"{json.dumps(name, ensure_ascii=False)} stands twice in this object; leave one out")
            self.skip()
            if self._next() != ":":
                self.refuse('":" after the name')
            self.at += 1
            members[name] = self.value(depth + 1)
            self._comma("}")
        return members

    def _items(self, depth: int) -> list[Json]:
        items: list[Json] = []
        self.at += 1
        while not self._closes("]"):
            items.append(self.value(depth + 1))
            self._comma("]")
        return items

    def _closes(self, bracket: str) -> bool:
        self.skip()
        if self._next() != bracket:
            return False
        self.at += 1
        return True

    def _comma(self, bracket: str) -> None:
        """Before the next member; none is needed before the bracket, which is left."""
        self.skip()
        if self._next() == ",":
            self.at += 1
        elif self._next() != bracket:
            self.refuse(f'"," or "{bracket}"')

    def _string(self) -> str:
        try:
            text, self.at = _DECODER.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            self.at = error.pos
            self._fail(next(told for said, told in _TEXT_FAULTS.items() if said in error.msg.lower()))
        assert isinstance(text, str)  # it begins with a quote
        try:
            text.encode()
        except UnicodeEncodeError:
            self._fail("this text holds half of a surrogate pair (\\ud800 to \\udfff), which is no character")
        return text

    def _number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            self.refuse("a number such as 12 or 1.5")
        if found.end() - self.at > _MOST_DIGITS:
            self._fail(f"expected a number of at most {_MOST_DIGITS} digits")
        self.at = found.end()
        if found[1] is None and found[2] is None:
            return int(found[0])
        value = float(found[0])
        if value in (float("inf"), float("-inf")):
            self._fail("this number is too large")
        return value

    def _word(self) -> Json:
        found = _WORD.match(self.text, self.at)
        if found is None or found[0] not in _WORDS:
            self.refuse("a value: {, [, a text in double quotes, a number, true, false or null")
        self.at = found.end()
        return _WORDS[found[0]]

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def refuse(self, expected: str, got: str | None = None) -> NoReturn:
        """What should stand here, and what does."""
        self._fail(f"expected {expected}, got {got or self._here()}")

    def _here(self) -> str:
        if self.at >= len(self.text):
            return "the end of the file"
        found = _WORD.match(self.text, self.at)
        return json.dumps(found[0][:_SHOWN] if found else self._next(), ensure_ascii=False)

    def _fail(self, message: str) -> NoReturn:
        before = self.text[: self.at]
        line, column = before.count("\n") + 1, self.at - before.rfind("\n")
        raise UsageError(f"line {line}, column {column}: {message}")
