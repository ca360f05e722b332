"""Members of JSON objects, read where the local policy's own words tell what is wrong.

Promises: MalformedRequest names the place, what was expected and what came, and never repeats a long value. A path is
empty for the body itself. Does not know any dialect's members.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader
from whitedwarf.protocol.notes import shortened
from whitedwarf.protocol.resolution import compact

Object: TypeAlias = dict[str, Any]

_LONGEST_MESSAGE = 300  # characters; what came may be much longer


def expected(path: str, what: str, value: Json) -> MalformedRequest:
    """The error for a value of another kind."""
    return MalformedRequest(f"{path}: expected {what}, got {shortened(value)}")


def located(path: str, read: Reader, value: Json) -> Any:
    """`read(value)`, its MalformedRequest with the path in front and in a few words."""
    try:
        return read(value)
    except MalformedRequest as error:
        message = str(error)
        shown = message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"
        raise MalformedRequest(f"{path}: {shown}") from error


def object_of(value: Json, path: str) -> Object:
    """An object."""
    if not isinstance(value, dict):
        raise expected(path, "an object", value)
    return value


def objects_of(value: Json, path: str) -> list[tuple[str, Object]]:
    """The objects of a list, each with its place; none where the list is absent."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise expected(path, "a list", value)
    places = [f"{path}[{index}]" for index in range(len(value))]
    return [(place, object_of(entry, place)) for place, entry in zip(places, value, strict=True)]


def list_at(parent: Object, name: str, path: str = "") -> Sequence[Json]:
    """A list; empty where it is absent."""
    value = parent.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise expected(_place(path, name), "a list", value)
    return value


def text_at(parent: Object, name: str, path: str = "") -> str | None:
    """A text, or None where it is absent."""
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise expected(_place(path, name), "a string", value)
    return value


def needed_text(parent: Object, name: str, path: str = "") -> str:
    """A text that has to be there."""
    value = text_at(parent, name, path)
    if value is None:
        raise expected(_place(path, name), "a string", value)
    return value


def flag_at(parent: Object, name: str, path: str = "") -> bool:
    """True or false; false where it is absent."""
    value = parent.get(name)
    if value is not None and not isinstance(value, bool):
        raise expected(_place(path, name), "true or false", value)
    return bool(value)


def integer_at(parent: Object, name: str, path: str = "") -> int | None:
    """A whole number, or None where it is absent. Some clients have only one kind of number: 100.0 is 100."""
    value = parent.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise expected(_place(path, name), "a whole number", value)
    return value


def number_at(parent: Object, name: str, path: str = "") -> float | None:
    """A number, or None where it is absent."""
    value = parent.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise expected(_place(path, name), "a number", value)
    return value


def json_text(value: Json) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def _place(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
