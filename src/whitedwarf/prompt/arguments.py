"""The arguments of an earlier tool call: text that should be a JSON object, read as the official library reads it.

Promises: the same texts count as objects, and the same numbers come out: integers from -2**63 to 2**64 - 1 stay exact,
-0 and larger ones become floats, 1e400 and NaN are no numbers, and lone surrogates are no text (spec/recipe.md 2, 8).
"""

import json
import math
import re
from typing import TypeAlias

from whitedwarf.conversation.json_value import MAX_INTEGER, MIN_INTEGER, Json

_Container: TypeAlias = dict[str, Json] | list[Json]

MAX_ARGUMENT_DEPTH = 127  # one less than a schema may have
_MAX_EXACT_DIGITS = 20  # of 2**64 and of -2**63 with its sign
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_arguments(text: str) -> dict[str, Json] | None:
    """The object, or None when the text is none."""
    try:
        value = _DECODER.decode(text)
        if not isinstance(value, dict) or _is_deeper_than(value, MAX_ARGUMENT_DEPTH):
            return None
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _is_deeper_than(value: dict[str, Json], depth: int) -> bool:
    level: list[_Container] = [value]
    for _ in range(depth):
        level = [child for container in level for child in _containers(container)]
        if not level:
            return False
    return True


def _containers(container: _Container) -> list[_Container]:
    items = container.values() if isinstance(container, dict) else container
    return [item for item in items if isinstance(item, dict | list)]


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    if len(text) <= _MAX_EXACT_DIGITS and MIN_INTEGER <= (exact := int(text)) <= MAX_INTEGER:
        return exact
    return _float(text)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is larger than any float")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant)
