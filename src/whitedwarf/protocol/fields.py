"""Typed reading of JSON values, with the words that the official library has for what is wrong (serde's).

A reader takes a JSON value and gives a typed one, or raises MalformedRequest. Promises: the first error in document
order is told, as the official library tells it (spec/recipe.md 2). Does not know any protocol.
"""

import re
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.json_style import FloatStyle, Spacing, dumps
from whitedwarf.protocol.body_memory import History
from whitedwarf.protocol.failures import MalformedRequest

Reader: TypeAlias = Callable[[Any], Any]


def word_for(value: Json) -> str:
    """What a value is, in serde's words."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{dumps(value, FloatStyle.V4, Spacing.COMPACT)}`"
        case str():
            return f"string {quoted(value)}"
        case dict():
            return "map"
        case _:
            return "sequence"


def wrong_type(value: Json, expected: str) -> MalformedRequest:
    """The error for a value of another kind than `expected`."""
    return MalformedRequest(f"invalid type: {word_for(value)}, expected {expected}")


def string(value: Json) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise wrong_type(value, "a string")


def boolean(value: Json) -> bool:
    """True or false; no number is either."""
    if isinstance(value, bool):
        return value
    raise wrong_type(value, "a boolean")


def anything(value: Json) -> Json:
    """Any JSON value, null included."""
    return value


def single(value: Json) -> float:
    """A number, rounded to 32 bits and given as a float (a number too large becomes infinite)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "f32")
    return round_to_single(value)


def round_to_single(number: float) -> float:
    """The nearest float of 32 bits."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return rounded


def number(value: Json) -> int | float:
    """A number, kept as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "a JSON number")
    return value


def unsigned(bits: int) -> Reader:
    """A reader of integers from 0 to 2**bits - 1."""
    return _integer(f"u{bits}", range(1 << bits))


def signed(bits: int) -> Reader:
    """A reader of integers from -2**(bits - 1) to 2**(bits - 1) - 1."""
    return _integer(f"i{bits}", range(-1 << bits - 1, 1 << bits - 1))


def _integer(expected: str, allowed: range) -> Reader:
    def read(value: Json) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(value, expected)
        if value not in allowed:
            raise MalformedRequest(f"invalid value: {word_for(value)}, expected {expected}")
        return value

    return read


def variant(*names: str) -> Reader:
    """A reader of one of these names."""

    known = frozenset(names)

    def read(value: Json) -> str:
        if type(value) is str and value in known:
            return value
        if isinstance(value, dict):
            return _variant_in_map(value)
        if not isinstance(value, str):
            raise wrong_type(value, "string or map")
        if value not in names:
            raise MalformedRequest(f"unknown variant `{value}`, {_one_of(names)}")
        return value

    def _variant_in_map(value: Mapping[str, Json]) -> str:
        if len(value) != 1:
            raise MalformedRequest("invalid value: map, expected map with a single key")
        ((name, content),) = value.items()
        read(name)
        if content is not None:
            raise wrong_type(content, "unit")
        return name

    return read


def list_of(read_item: Reader) -> Reader:
    """A reader of lists; `read_item` is pure and lives as long as the program, so a history may keep what it gave."""

    def read(value: Json) -> list[Any]:
        if type(value) is History:
            return value.read_each(read_item)
        if not isinstance(value, list | tuple):
            raise wrong_type(value, "a sequence")
        return [read_item(item) for item in value]

    return read


def map_of(read_value: Reader) -> Reader:
    """A reader of objects that have any keys."""

    def read(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong_type(value, "a map")
        return {key: read_value(member) for key, member in value.items()}

    return read


@dataclass(frozen=True, slots=True)
class Field:
    """One member of an object. Without `is_required`, absent and null are both None (or `default`)."""

    read: Reader
    is_required: bool = False
    default: Any = None

    def read_member(self, value: Json) -> Any:
        """The member's value: what the reader makes of it, or the default for null."""
        return self.default if value is None and not self.is_required else self.read(value)

    @property
    def member_reader(self) -> Reader:
        """The shortest way to `read_member`."""
        is_plain = type(self) is Field and self.is_required
        return self.read if is_plain else self.read_member


def required(read: Reader) -> Field:
    """A member that has to be there."""
    return Field(read, is_required=True)


def optional(read: Reader, default: Any = None) -> Field:
    """A member that may be absent or null."""
    return Field(read, default=default)


class _TooLong(MalformedRequest):
    """A list with more items than the object has members; how that is told depends on what is around it."""

    def __init__(self, length: int, members: int) -> None:
        super().__init__(f"invalid length {length}, expected fewer elements in array")
        self.length, self.members = length, members

    def within_tagged(self) -> MalformedRequest:
        """The words where some object around the list is told by its tag."""
        return MalformedRequest(f"invalid length {self.length}, expected {_elements(self.members)} in sequence")


def record(name: str, fields: Mapping[str, Field], make: Callable[..., Any]) -> Reader:
    """A reader of objects: known members in document order, unknown ones ignored, then `make(**members)`.

    A list of all the members in the order of `fields` is read as well, as serde does; ones with a default may be left
    out at its end. `name` is the struct's, or `variant ENUM::NAME`.
    """

    def read(value: Json) -> Any:
        if isinstance(value, dict):
            return make(**_complete(_read_members(value)))
        if isinstance(value, list | tuple):
            return make(**_from_list(value))
        raise wrong_type(value, f"struct {name}")

    defaults = {key: field.default for key, field in fields.items()}
    needed = tuple(key for key, field in fields.items() if field.is_required)
    readers = {key: field.member_reader for key, field in fields.items()}
    texts = frozenset(key for key, field in fields.items() if field.read is string)  # most members, and read at once

    def _complete(members: dict[str, Any]) -> dict[str, Any]:
        for key in needed:
            if key not in members:
                raise MalformedRequest(f"missing field `{key}`")
        return defaults | members  # in the declared order

    def _read_members(value: Mapping[str, Json]) -> dict[str, Any]:
        return {
            key: member if type(member) is str and key in texts else readers[key](member)
            for key, member in value.items()
            if key in readers
        }

    def _from_list(value: Sequence[Json]) -> dict[str, Any]:
        read_members = _read_members(dict(zip(fields, value, strict=False)))
        for length, (key, field) in enumerate(fields.items()):
            if key not in read_members:
                if field.default is None:
                    shown = f"struct {name} with {_elements(len(fields))}"
                    raise MalformedRequest(f"invalid length {length}, expected {shown}")
                read_members[key] = field.default
        if len(value) > len(fields):
            raise _TooLong(len(value), len(fields))
        return read_members

    return read


def within_tagged(read: Reader) -> Reader:
    """The same reader, with the words that serde has within an object told by its tag."""

    def read_within(value: Json) -> Any:
        try:
            return read(value)
        except _TooLong as error:
            raise error.within_tagged() from error

    return read_within


def _elements(count: int) -> str:
    return f"{count} element{'' if count == 1 else 's'}"


def tagged(name: str, readers: Mapping[str, Reader], tag: str = "type", *, is_inner: bool = False) -> Reader:
    """A reader of objects whose kind is told by their member `tag`.

    Where it `is_inner`, within another such object, serde also takes the kind's number, counted from 0.
    """

    def read(value: Json) -> Any:
        try:
            if isinstance(value, dict):
                kind = value.get(tag)
                known = readers.get(kind) if type(kind) is str else None
                return known(value) if known else readers[_kind_of(value)](value)
            if isinstance(value, list | tuple):  # the tag comes first
                return readers[_kind_of(dict(zip((tag,), value, strict=False)))](value[1:])
        except _TooLong as error:
            raise error.within_tagged() from error
        raise wrong_type(value, f"internally tagged enum {name}")

    def _kind_of(members: Mapping[str, Json]) -> str:
        if tag not in members:
            raise MalformedRequest(f"missing field `{tag}`")
        kind = members[tag]
        if is_inner and isinstance(kind, int) and not isinstance(kind, bool) and kind >= 0:
            return _numbered(kind)
        if not isinstance(kind, str):
            raise wrong_type(kind, "variant identifier")
        if kind not in readers:
            raise MalformedRequest(f"unknown variant `{kind}`, {_one_of(tuple(readers))}")
        return kind

    def _numbered(number: int) -> str:
        if number >= len(readers):
            expected = f"variant index 0 <= i < {len(readers)}"
            raise MalformedRequest(f"invalid value: integer `{number}`, expected {expected}")
        return tuple(readers)[number]

    return read


def _one_of(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > 2:
        return f"expected one of {', '.join(quoted)}"
    return f"expected {' or '.join(quoted)}"


def quoted(text: str) -> str:
    """Text in double quotes, escaped as Rust's `{:?}` does for all characters of Unicode 14 but one."""
    return f'"{_UNUSUAL.sub(lambda found: _escaped(found[0]), text)}"'


_UNUSUAL = re.compile(r"[^ !#-\[\]-~]")  # all but the characters that every text has
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


_SPACING_EXTENDERS = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc0\u0cc2\u0cc7\u0cc8\u0cca\u0ccb\u0cd5\u0cd6\u0d3e\u0d57"
    "\u0dcf\u0ddf\u1715\u1734\u1b35\u1b3b\u1b3d\u1b43\u1b44\u1baa\u1bf2\u1bf3\u302e\u302f\ua953\ua9c0"
    "\uff9e\uff9f\U000111c0\U00011235\U0001133e\U0001134d\U00011357\U000114b0\U000114bd\U000115af"
    "\U000116b6\U00011930\U0001193d\U00016ff0\U00016ff1\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d16f"
    "\U0001d170\U0001d171\U0001d172"
)
"""Vowel signs and the like that Rust escapes as it does combining marks, though they take up space."""


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    is_combining = unicodedata.category(character) in ("Mn", "Me") or character in _SPACING_EXTENDERS
    return f"\\u{{{ord(character):x}}}" if is_combining or not character.isprintable() else character
