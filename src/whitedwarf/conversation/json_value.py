"""JSON values as they stand in schemas: what is allowed, checked once.

Promises: after `check_json` a value can be written as JSON, in bounded depth. Limits and words are those of the
official library (spec/recipe.md 1), which raises five built-in types where we raise ConversationError.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from whitedwarf.errors import ConversationError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_JSON_DEPTH = 128  # arrays and objects within one another
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # what the official library keeps exact


def check_json(value: object) -> None:
    """Raise ConversationError for anything that is no JSON value, or is nested too deeply."""
    level: list[object] = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        inner, has_containers = _checked(level)
        if not has_containers:
            return
        level = inner
    raise ConversationError(f"JSON input exceeds the maximum nesting depth of {MAX_JSON_DEPTH}")


def _checked(level: list[object]) -> tuple[list[object], bool]:
    """Everything inside the arrays and objects among good values, and whether there are any. Runs over all schemas."""
    inner: list[object] = []
    has_containers = False
    for value in level:
        if type(value) is str and value.isascii():  # most values, and quicker than the patterns
            continue
        children = _children(value)
        if children is not None:
            has_containers = True
            inner += children
    return inner, has_containers


def _children(value: object) -> Iterable[object] | None:
    """What is inside an array or object; None for a good scalar."""
    if type(value) is dict:  # as above
        return _members(value)
    match value:
        case None | bool():
            pass
        case str():
            _check_text(value)
        case int():
            if not MIN_INTEGER <= value <= MAX_INTEGER:
                raise ConversationError("integer is outside the JSON number range")
        case float():
            if not math.isfinite(value):
                raise ConversationError(f"{_name_of(value)} is not a finite JSON number")
        case list() | tuple():
            return value
        case dict():
            return _members(value)
        case _:
            raise ConversationError(f"{type(value).__name__} is not a JSON value")
    return None


def _members(value: dict[object, object]) -> Iterable[object]:
    for key in value:
        if not isinstance(key, str):
            raise ConversationError("JSON object keys must be str")
        if not key.isascii():
            _check_text(key)
    return value.values()


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConversationError(f"a JSON string holds a lone surrogate: {error}") from error


def _name_of(number: float) -> str:
    return "NaN" if math.isnan(number) else str(number)
