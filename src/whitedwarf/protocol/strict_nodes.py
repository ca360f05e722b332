"""Strict schemas read into the kinds of nodes that they may have (spec/recipe.md 7); strict_schema.py checks them.

Promises: the official library's first type error, as MalformedRequest. Unknown keywords are dropped; the only one that
holds definitions is `$def`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    Reader,
    boolean,
    list_of,
    map_of,
    number,
    optional,
    record,
    required,
    signed,
    string,
    tagged,
    variant,
)


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """An object. `required` None: not said."""

    properties: Mapping[str, "Node"]
    allows_others: bool
    required: list[str] | None
    description: str | None
    definitions: Mapping[str, "Node"] | None


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """A list of alike items."""

    items: "Node"
    description: str | None


@dataclass(frozen=True, slots=True)
class AnyOfNode:
    """One of several."""

    choices: list["Node"]
    description: str | None


@dataclass(frozen=True, slots=True)
class LeafNode:
    """What holds no other nodes, as it is written out."""

    shown: Mapping[str, Json]


Node: TypeAlias = ObjectNode | ArrayNode | AnyOfNode | LeafNode


def read_node(schema: Json) -> Node:
    """A schema's root, and under it all the others; MalformedRequest with the first error."""
    if isinstance(schema, dict):
        if "type" in schema:
            return _union(schema) if isinstance(schema["type"], list | tuple) else _typed(schema)
        if "anyOf" in schema:
            return _any_of(schema)
        if "$ref" in schema:
            return LeafNode({"$ref": _at("$ref", string)(schema)})
    raise MalformedRequest("one of `type`, `anyOf`, `$ref` field is required")


def _at(key: str, read: Reader, default: Json = None) -> Reader:
    """A reader of one member, which errors name."""

    def read_member(schema: Mapping[str, Json]) -> Any:
        try:
            return read(schema.get(key, default))
        except MalformedRequest as error:
            raise MalformedRequest(f"field `{key}`: {error}") from error

    return read_member


def _nullable(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _union(schema: Mapping[str, Json]) -> Node:
    shown = {"type": _at("type", list_of(variant("string", "number", "integer", "boolean", "null")))(schema)}
    return LeafNode(shown | _present(description=_description(schema)))


def _any_of(schema: Mapping[str, Json]) -> Node:
    choices = _at("anyOf", list_of(_typed))(schema)
    return AnyOfNode(choices, _description(schema))


_description = _at("description", _nullable(string))


def _object(**members: Any) -> Node:
    return ObjectNode(
        members["properties"] or {},
        bool(members["additionalProperties"]),
        members["required"],
        members["description"],
        members["$def"],
    )


def _array(items: Node, description: str | None) -> Node:
    return ArrayNode(items, description)


def _leaf(kind: str) -> Callable[..., Node]:
    return lambda **members: LeafNode({"type": kind} | _present(**members))


def _present(**members: Json) -> dict[str, Json]:
    return {name: value for name, value in members.items() if value is not None}


_NUMBER_KEYWORDS = ("const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_FORMATS = ("email", "hostname", "ipv4", "ipv6", "uuid")
_MEMBERS = {
    "object": {
        "properties": optional(map_of(read_node)),
        "additionalProperties": optional(boolean),
        "required": optional(list_of(string)),
        "description": optional(string),
        "$def": optional(map_of(read_node)),
    },
    "string": {
        "description": optional(string),
        "pattern": optional(string),
        "format": optional(variant(*_FORMATS)),
        "enum": optional(list_of(string)),
    },
    "number": {"description": optional(string)} | {key: optional(number) for key in _NUMBER_KEYWORDS},
    "integer": {"description": optional(string)} | {key: optional(signed(64)) for key in _NUMBER_KEYWORDS},
    "boolean": {"description": optional(string)},
    "array": {"items": required(read_node), "description": optional(string)},
    "null": {"description": optional(string)},
}
_MAKERS: Mapping[str, Callable[..., Node]] = {"object": _object, "array": _array}

_typed = tagged(
    "JsonSchemaType",
    {
        kind: record(f"variant JsonSchemaType::{kind.capitalize()}", members, _MAKERS.get(kind, _leaf(kind)))
        for kind, members in _MEMBERS.items()
    },
)
