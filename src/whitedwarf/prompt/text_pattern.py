"""A schema's `pattern` as an expression for a whole text, in the language of the grammar library.

Promises: what the written expression matches, the pattern is found in, read as JSON Schema says (ECMA-262, anchored
nowhere by itself); ValueError for what no such expression says. Does not know whether the library takes the result.
"""

import re
from collections.abc import Iterator

ANY_TEXT = r"(?:.|\n)*"
_TOKEN = re.compile(
    r"\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[pP]\{[^}]*\}|\\."
    r"|\(\?<[A-Za-z_]\w*>|\(\?:|\(\?|\[\^?|[*+?]\??|\{\d+(?:,\d*)?\}\??|.",
    re.DOTALL,
)
_BLANKS = r"\t\n\x0B\x0C\r\x20\xA0\x{2028}\x{2029}\p{Zs}"
_MORE_BLANKS = rf"{_BLANKS}\x1C-\x1F\x{{85}}\x{{FEFF}}"  # what one or another engine calls blank
_SETS = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]",
    "s": f"[{_BLANKS}]",
    "S": f"[^{_MORE_BLANKS}]",
}
_CONTROLS = {"n": r"\n", "r": r"\r", "t": r"\t", "f": r"\x0C", "v": r"\x0B", "0": r"\x00"}
_DOT = r"[^\n\r\x{2028}\x{2029}]"


def text_pattern(pattern: str) -> str:
    """The expression; ValueError naming what in the pattern has none."""
    tokens = _TOKEN.findall(pattern)
    return _Reading(tokens).alternatives()


class _Reading:
    """Goes through the pattern once."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def alternatives(self) -> str:
        """The whole pattern: each of its outermost alternatives may stand anywhere where nothing ties it down."""
        found = [self._alternative()]
        while self._at < len(self._tokens):
            self._at += 1  # a bar
            found.append(self._alternative())
        if self._depth:
            raise ValueError("a group that does not end")
        return "|".join(found)

    def _alternative(self) -> str:
        before, behind, parts = ANY_TEXT, ANY_TEXT, list[str]()
        if self._next() == "^":
            before, self._at = "", self._at + 1
        while (token := self._next()) is not None and not (token == "|" and not self._depth):
            self._at += 1
            if token == "$" and not self._depth and self._next() in (None, "|"):
                behind = ""
            else:
                parts.append(self._part(token))
        return f"{before}(?:{''.join(parts)}){behind}"

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _part(self, token: str) -> str:
        if token in ("^", "$"):
            raise ValueError(f"{token} anywhere but at an end")
        if token[0] == "[":
            return self._class(token)
        if token[0] == "(":
            return self._group(token)
        if token == ")":
            self._depth -= 1
            if self._depth < 0:
                raise ValueError("a group that does not begin")
            return ")"
        if token[0] == "\\":
            return _escape(token)
        if token[0] in "*+?" or (token[0] == "{" and len(token) > 1):
            return token[0] if token[0] != "{" else token.removesuffix("?")
        return _DOT if token == "." else token if token == "|" else _literal(token)

    def _group(self, token: str) -> str:
        if token == "(?":
            raise ValueError("look-around")
        self._depth += 1
        return "(?:"

    def _class(self, opening: str) -> str:
        items = list(self._items())
        self._at += 1  # its end
        if not items:
            raise ValueError(f"{opening}]")
        return f"{opening}{self._joined(items, is_negated=opening == '[^')}]"

    def _items(self) -> Iterator[str]:
        while (token := self._next()) != "]":
            if token is None:
                raise ValueError("a class that does not end")
            self._at += 1
            # Several characters outside of a class, one by one inside.
            yield from [token] if token[0] == "\\" else token

    @staticmethod
    def _joined(items: list[str], *, is_negated: bool) -> str:
        written, can_range = "", False
        for number, item in enumerate(items):
            rest = items[number + 1 :]
            if item == "-" and can_range and rest and not _is_set(rest[0]):
                written, can_range = written + "-", False
            else:
                ends_range = written.endswith("-") and not written.endswith("\\-")
                written += _class_item(item, is_negated=is_negated)
                can_range = not ends_range and not _is_set(item)
        return written


def _is_set(item: str) -> bool:
    return item[:2] in {"\\" + kind for kind in "dDwWsSpP"}


def _class_item(item: str, *, is_negated: bool) -> str:
    if item == "\\b":
        return r"\x08"
    if item == "\\s" and is_negated:
        return f"[{_MORE_BLANKS}]"
    if item == "\\S" and is_negated:
        return f"[^{_BLANKS}]"
    return _escape(item) if item[0] == "\\" else _literal(item)


def _escape(token: str) -> str:
    kind = token[1]
    if len(token) > 2:
        return token if kind in "pP" else _code(token)
    if kind in _SETS:
        return _SETS[kind]
    if kind in _CONTROLS:
        return _CONTROLS[kind]
    if kind.isalnum():
        raise ValueError(token)  # word boundaries, back references, and what nobody knows
    return _literal(kind)


def _code(token: str) -> str:
    code = int(token[2:].strip("{}"), 16)
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise ValueError(token)
    return f"\\x{{{code:X}}}"


def _literal(text: str) -> str:
    """A character as itself, in a class and outside."""
    return text if text.isalnum() or text in " \"_<>=:;,!@%'`" else f"\\x{{{ord(text):X}}}"
