"""A JSON Schema as a grammar is to follow it: the same, without what a model could go on with for ever.

Promises: whatever the returned schema allows, the given one does. Knows the keywords that hold schemas, and formats.
"""

import json
import re
from collections.abc import Callable, Mapping

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.text_formats import TEXT_FORMATS

MAX_INTEGER = 9 * 10**18
"""Integers whose schema says nothing of their size stay within ±this: digits come easily to a model, and never end."""

ONE_SCHEMA = ("items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains")
LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "$def", "definitions")
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_RARE_ESCAPE = re.compile(r"(?<!\\)(\\\\)*\\u00[01]")  # grammar.py lets no \u through, and these have no other spelling


class UnsupportedSchemaError(ValueError):
    """A keyword that a grammar cannot promise; the text names it."""


def bounded_schema(schema: Json) -> Json:
    """`schema` with its integers bounded; UnsupportedSchemaError for what cannot be promised."""
    if not isinstance(schema, dict):
        return schema
    _check(schema)
    kept = {name: value for name, value in schema.items() if name != "x-guidance"}  # the grammar library's own switches
    for name in ONE_SCHEMA:
        _replace(kept, name, bounded_schema)
    for name in LISTED_SCHEMAS:
        _replace(kept, name, _bounded_list)
    for name in NAMED_SCHEMAS:
        _replace(kept, name, _bounded_values)
    return {**_spelt_format(kept), **_limits(kept)}


def _spelt_format(schema: dict[str, Json]) -> dict[str, Json]:
    """Its format as a pattern: what the grammar library takes for one is wider (the 31st of June, leap seconds)."""
    if "format" not in schema:
        return schema
    name = schema.pop("format")
    if not isinstance(name, str) or name not in TEXT_FORMATS:
        raise UnsupportedSchemaError(f"Unknown format: {json.dumps(name)[:40]} (known are {', '.join(TEXT_FORMATS)})")
    pattern: dict[str, Json] = {"pattern": f"^(?:{TEXT_FORMATS[name]})$"}
    if "pattern" not in schema:
        return {**schema, **pattern}
    others = schema.get("allOf")
    return {**schema, "allOf": [*(others if isinstance(others, list) else []), pattern]}


def _replace(schema: dict[str, Json], name: str, change: Callable[[Json], Json]) -> None:
    if name in schema:
        schema[name] = change(schema[name])


def _bounded_list(value: Json) -> Json:
    return [bounded_schema(one) for one in value] if isinstance(value, list) else value


def _bounded_values(value: Json) -> Json:
    return {name: bounded_schema(one) for name, one in value.items()} if isinstance(value, dict) else value


def _check(schema: Mapping[str, Json]) -> None:
    least = schema.get("minProperties")
    if isinstance(least, int | float) and least > 1:
        # A grammar counts members; a name that is said twice is one property.
        raise UnsupportedSchemaError(f"minProperties above 1 is not supported (here it is {least}): use required")
    for name in ("const", "enum"):
        if _RARE_ESCAPE.search(json.dumps(schema.get(name))):
            raise UnsupportedSchemaError(f"{name} with control characters is not supported")
    if _is_integer(schema):
        _check_end(schema, _LOWER, lambda end: end >= MAX_INTEGER)
        _check_end(schema, _UPPER, lambda end: end <= -MAX_INTEGER)


def _check_end(schema: Mapping[str, Json], names: tuple[str, str], is_beyond: Callable[[float], bool]) -> None:
    for name in names:
        end = schema.get(name)
        if isinstance(end, int | float) and is_beyond(end):
            raise UnsupportedSchemaError(f"{name} {end} is not supported: integers end at ±{MAX_INTEGER}")


def _is_integer(schema: Mapping[str, Json]) -> bool:
    kinds = schema.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    return "integer" in named and "number" not in named


def _limits(schema: Mapping[str, Json]) -> dict[str, Json]:
    """What an integer's schema leaves open, said."""
    if not _is_integer(schema) or "enum" in schema or "const" in schema:
        return {}
    said: dict[str, Json] = {}
    if not any(name in schema for name in _LOWER):
        said["minimum"] = -MAX_INTEGER
    if not any(name in schema for name in _UPPER):
        said["maximum"] = MAX_INTEGER
    return said
