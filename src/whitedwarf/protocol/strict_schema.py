"""The schemas of `strict: true`: brought into the one form that is enforced, or refused (spec/recipe.md 7).

Two steps, as the official library takes them: strict_nodes.py reads the schema into the few kinds of nodes that the
form knows, dropping every other keyword; then each object is checked and written out. Promises: the official value,
key order, texts and first error.
"""

from collections.abc import Mapping

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.strict_nodes import AnyOfNode, ArrayNode, LeafNode, Node, ObjectNode, read_node


def strict_parameters(schema: Json) -> Json:
    """A strict tool's parameters, None for absent ones; RefusedRequest if they have no strict form."""
    if schema is None:
        schema = {"type": "object", "properties": {}}
    node = _node(schema, "Invalid tool parameters schema : ")
    shown = _written(node, may_be_empty=True)
    if not isinstance(node, ObjectNode):
        raise RefusedRequest("The top level of the function parameters schema must be an object.")
    return shown


def strict_response(schema: Json) -> Json:
    """A strict response schema; RefusedRequest if it has no strict form."""
    node = _node(schema, "Invalid json schema: ")
    shown = _written(node)
    if not isinstance(node, ObjectNode):
        raise RefusedRequest("The top level of the json schema must be an object.")
    return shown


def _node(schema: Json, prefix: str) -> Node:
    try:
        return read_node(schema)
    except MalformedRequest as error:
        raise RefusedRequest(f"{prefix}{error}") from error


def _written(node: Node, *, may_be_empty: bool = False) -> Json:
    """The node as JSON, once all in it is found good. `may_be_empty`: an object here needs no properties."""
    match node:
        case ObjectNode():
            return _object(node, may_be_empty)
        case ArrayNode(items, description):
            return {"type": "array", "items": _written(items), **_described(description)}
        case AnyOfNode(choices, description):
            return {
                "anyOf": [_written(choice, may_be_empty=may_be_empty) for choice in choices],
                **_described(description),
            }
        case LeafNode(shown):
            return shown


def _object(node: ObjectNode, may_be_empty: bool) -> Json:
    if not node.properties and not may_be_empty:
        raise RefusedRequest("An object with no properties is not allowed.")
    shown: dict[str, Json] = {
        "type": "object",
        "properties": _all_written(node.properties),
        "additionalProperties": False,
        "required": list(node.properties),
        **_described(node.description),
    }
    if node.definitions is not None:
        shown["$def"] = _all_written(node.definitions)
    _check_object(node)
    return shown


def _check_object(node: ObjectNode) -> None:
    if node.required is not None:
        _check_required(node.required, node.properties)
    if node.allows_others:
        raise RefusedRequest("additionalProperties should not be true")


def _check_required(required: list[str], properties: Mapping[str, Node]) -> None:
    seen = set()
    for name in required:
        if name not in properties:
            raise RefusedRequest(f"Required property '{name}' not found in object")
        if name in seen:
            raise RefusedRequest(f"Duplicate required property '{name}'")
        seen.add(name)
    if len(seen) != len(properties):
        raise RefusedRequest("Required properties must match all properties in the object")


def _all_written(nodes: Mapping[str, Node]) -> Json:
    return {name: _written(node) for name, node in nodes.items()}


def _described(description: str | None) -> dict[str, Json]:
    return {} if description is None else {"description": description}
