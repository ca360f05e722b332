"""Whether a value is a JSON Schema, told by the validator that the official library has too (spec/recipe.md 7).

Promises: the official library's first message; nothing is fetched: a schema that refers to another document is refused.
Patterns are compiled, never run, but compiling one of a few bytes can take a fifth of a second, so whoever takes
schemas from strangers should rather keep them as they are. The only place that knows `jsonschema_rs`.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jsonschema_rs

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.json_style import FloatStyle, Spacing, dumps

_NEWEST = "https://json-schema.org/draft/2020-12/schema"
_META_SCHEMAS = {
    "http://json-schema.org/draft-04/schema": "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema": "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema": "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema": "https://json-schema.org/draft/2019-09/schema",
    _NEWEST: _NEWEST,
}
_MASK = "\0"  # stands in messages for the value that is wrong, which we write ourselves: the binding sorts keys


def first_problem(schema: Json) -> str | None:
    """What is wrong with a schema: the validator's first message; None for a good one."""
    given: Any = schema
    try:
        _meta_validator(_meta_schema_of(schema)).validate(given)
        jsonschema_rs.validator_for(given, mask=_MASK, offline=True)
    except jsonschema_rs.ValidationError as error:
        return _message(error, schema)
    except ValueError as error:  # nested more deeply than the validator goes, or a lone surrogate
        return str(error)
    return None


def _meta_schema_of(schema: Json) -> str:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    return _META_SCHEMAS.get(named.rstrip("#"), _NEWEST) if isinstance(named, str) else _NEWEST


@cache
def _meta_validator(meta_schema: str) -> jsonschema_rs.Validator:
    """A validator of schemas. Those that are compiled into the package look at keywords in an order of their own."""
    return jsonschema_rs.validator_for(
        {"$schema": meta_schema, "allOf": [{"$ref": meta_schema}]}, mask=_MASK, offline=True
    )


def _message(error: jsonschema_rs.ValidationError, schema: Json) -> str:
    message: str = error.message
    if not message.startswith(_MASK):
        return message
    return dumps(_wrong_value(error, schema), FloatStyle.V4, Spacing.COMPACT) + message.removeprefix(_MASK)


def _wrong_value(error: jsonschema_rs.ValidationError, schema: Any) -> Any:
    """What the error is about: the part of the schema at its path or, if that leads astray, the validator's copy.

    Of a pattern that is a key, the official message shows the schema under it, which is what the path leads to.
    """
    steps = list(error.instance_path)
    copy: Any = error.instance
    places = list(_places(schema, steps))
    if copy in steps[-1:] and places:
        return places[0]
    return next((place for place in places if place == copy), copy)


def _places(value: Any, steps: Sequence[str | int]) -> Iterator[Any]:
    """What the path may lead to: it has 7 for the keys "7" and "007", and leaves out the key ""."""
    if not steps:
        yield value
    if isinstance(value, list) and steps and isinstance(steps[0], int) and steps[0] < len(value):
        yield from _places(value[steps[0]], steps[1:])
    for key in value if isinstance(value, dict) else ():
        if steps and _may_be(key, steps[0]):
            yield from _places(value[key], steps[1:])
        if key == "":
            yield from _places(value[key], steps)


def _may_be(key: str, step: str | int) -> bool:
    return key == step or (isinstance(step, int) and key.isdecimal() and key.isascii() and int(key) == step)
