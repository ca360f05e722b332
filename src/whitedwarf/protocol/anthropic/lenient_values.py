"""Typed reading of JSON values where the local policy's own words tell what is wrong.

Promises: MalformedRequest names the place, what was expected and what came, and never repeats a long value.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.anthropic.notes import shown
from whitedwarf.protocol.failures import MalformedRequest

Object: TypeAlias = Mapping[str, Json]


def malformed(path: str, expected: str, value: Json) -> MalformedRequest:
    """The error for a value of another kind."""
    came = {list: "an array", tuple: "an array", dict: "an object", type(None): "null"}.get(type(value), shown(value))
    return MalformedRequest(f"{path}: expected {expected}, got {came}")


def object_of(value: Json, path: str) -> Object:
    """An object."""
    if not isinstance(value, dict):
        raise malformed(path, "an object", value)
    return value


def list_at(parent: Object, name: str, path: str) -> Sequence[Json]:
    """A list; empty where it is absent."""
    value = parent.get(name)
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise malformed(path + name, "an array", value)
    return value


def text_at(parent: Object, name: str, path: str) -> str | None:
    """A text, or None where it is absent."""
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise malformed(path + name, "a string", value)
    return value


def flag_at(parent: Object, name: str, path: str) -> bool:
    """True or false; false where it is absent."""
    value = parent.get(name)
    if value is not None and not isinstance(value, bool):
        raise malformed(path + name, "true or false", value)
    return bool(value)


def integer_at(parent: Object, name: str, path: str) -> int | None:
    """A whole number, or None where it is absent."""
    value = parent.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise malformed(path + name, "a whole number", value)
    return value


def number_at(parent: Object, name: str, path: str) -> float | None:
    """A number, or None where it is absent."""
    value = parent.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise malformed(path + name, "a number", value)
    return value
