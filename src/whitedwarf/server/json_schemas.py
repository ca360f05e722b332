"""Small words for writing JSON schemas (2020-12) as data; each gives a new schema."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]


def text(description: str = "", **more: Any) -> Schema:
    """A string."""
    return _described("string", description, more)


def number(description: str = "", **more: Any) -> Schema:
    """A number; `minimum`, `maximum`."""
    return _described("number", description, more)


def whole(description: str = "", **more: Any) -> Schema:
    """A whole number."""
    return _described("integer", description, more)


def flag(description: str = "") -> Schema:
    """True or false."""
    return _described("boolean", description, {})


def array(items: Schema, description: str = "", **more: Any) -> Schema:
    """A list."""
    return _described("array", description, {"items": items, **more})


def members(properties: Mapping[str, Schema], description: str = "", required: Sequence[str] = ()) -> Schema:
    """An object with these members, and any others beside them."""
    shape: Schema = {"properties": dict(properties), "additionalProperties": True}
    return _described("object", description, shape | ({"required": list(required)} if required else {}))


def one_of(description: str, *choices: Schema) -> Schema:
    """Any of these."""
    return {"anyOf": list(choices)} | ({"description": description} if description else {})


def word(description: str, *words: str) -> Schema:
    """One of these texts."""
    return text(description, enum=list(words))


def or_null(schema: Schema) -> Schema:
    """The same, or null, which is as if the member were not there."""
    if schema.get("type") == "null":
        return schema
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return schema | {"type": [schema["type"], "null"]}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}]} | described


def reference(name: str) -> Schema:
    """A schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


def _described(kind: str, description: str, more: Mapping[str, Any]) -> Schema:
    return {"type": kind} | ({"description": description} if description else {}) | dict(more)
