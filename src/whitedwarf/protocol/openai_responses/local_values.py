"""Members of JSON objects, read where the local policy's own words tell what is wrong.

Promises: MalformedRequest names the place, what was expected and what came, and never repeats a long value.
"""

from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader
from whitedwarf.protocol.notes import shortened
from whitedwarf.protocol.resolution import compact

Object = dict[str, Any]


def expected(path: str, what: str, value: Json) -> MalformedRequest:
    """The error for a value of another kind."""
    return MalformedRequest(f"{path}: expected {what}, got {shortened(value)}")


def located(path: str, read: Reader, value: Json) -> Any:
    """`read(value)`, its MalformedRequest with the path in front."""
    try:
        return read(value)
    except MalformedRequest as error:
        raise MalformedRequest(f"{path}: {error}") from error


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


def text_at(parent: Object, name: str, path: str) -> str | None:
    """A text, or None where it is absent."""
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise expected(f"{path}.{name}".lstrip("."), "a text", value)
    return value


def needed_text(parent: Object, name: str, path: str) -> str:
    """A text that has to be there."""
    value = text_at(parent, name, path)
    if value is None:
        raise expected(f"{path}.{name}", "a text", value)
    return value


def json_text(value: Json) -> str:
    """A text as it is, any other value as JSON."""
    return value if isinstance(value, str) else compact(value)
