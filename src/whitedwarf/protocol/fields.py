"""Typed reading of JSON values, with the words that the official library has for what is wrong (serde's).

A reader takes a JSON value and gives a typed one, or raises MalformedRequest. Promises: the first error in document
order is told, as the official library tells it (spec/recipe.md 2). Does not know any protocol.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
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
            return f"floating point `{_plain_float(value)}`"
        case str():
            return f"string {_debug(value)}"
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


def unsigned(bits: int) -> Reader:
    """A reader of integers from 0 to 2**bits - 1."""
    expected = f"u{bits}"

    def read(value: Json) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(value, expected)
        if not 0 <= value < 1 << bits:
            raise MalformedRequest(f"invalid value: {word_for(value)}, expected {expected}")
        return value

    return read


def variant(*names: str) -> Reader:
    """A reader of one of these names."""

    def read(value: Json) -> str:
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
    """A reader of lists."""

    def read(value: Json) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise wrong_type(value, "a sequence")
        return [read_item(item) for item in value]

    return read


@dataclass(frozen=True, slots=True)
class Field:
    """One member of an object. Without `is_required`, absent and null are both None (or `default`)."""

    read: Reader
    is_required: bool = False
    default: Any = None


def required(read: Reader) -> Field:
    """A member that has to be there."""
    return Field(read, is_required=True)


def optional(read: Reader, default: Any = None) -> Field:
    """A member that may be absent or null."""
    return Field(read, default=default)


def record(name: str, fields: Mapping[str, Field], make: Callable[..., Any]) -> Reader:
    """A reader of objects: known members in document order, unknown ones ignored, then `make(**members)`."""

    def read(value: Json) -> Any:
        members = _members(value, name, fields)
        read_members = {}
        for key, member in members.items():
            field = fields.get(key)
            if field is not None:
                is_absent = member is None and not field.is_required
                read_members[key] = field.default if is_absent else field.read(member)
        return make(**_complete(read_members, fields))

    return read


def _complete(members: dict[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    for key, field in fields.items():
        if key not in members:
            if field.is_required:
                raise MalformedRequest(f"missing field `{key}`")
            members[key] = field.default
    return members


def _members(value: Json, name: str, fields: Mapping[str, Field]) -> Mapping[str, Json]:
    if isinstance(value, dict):
        return value
    if not isinstance(value, list | tuple):
        raise wrong_type(value, f"struct {name}")
    if len(value) != len(fields):  # serde also reads a struct from a list of all its members
        shown = f"struct {name} with {len(fields)} element{'' if len(fields) == 1 else 's'}"
        raise MalformedRequest(f"invalid length {len(value)}, expected {shown}")
    return dict(zip(fields, value, strict=True))


def tagged(name: str, readers: Mapping[str, Reader], tag: str = "type") -> Reader:
    """A reader of objects whose kind is told by their member `tag`."""

    def read(value: Json) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(value, f"internally tagged enum {name}")
        if tag not in value:
            raise MalformedRequest(f"missing field `{tag}`")
        kind = value[tag]
        if not isinstance(kind, str):
            raise wrong_type(kind, "variant identifier")
        if kind not in readers:
            raise MalformedRequest(f"unknown variant `{kind}`, {_one_of(tuple(readers))}")
        return readers[kind](value)

    return read


def _one_of(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > 2:
        return f"expected one of {', '.join(quoted)}"
    return f"expected {' or '.join(quoted)}"


def _debug(text: str) -> str:
    """Text in double quotes, escaped as Rust's `{:?}` does for what occurs in practice."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
    shown = [escapes.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text]
    return f'"{"".join(shown)}"'


def _plain_float(number: float) -> str:
    text = f"{number:f}" if "e" in repr(number) and abs(number) >= 1 else repr(number)
    return text.rstrip("0") + "0" if "." in text and text.endswith("00") else text
