"""How a tool of ours is described to the model: a JSON Schema out of a few short words."""

from collections.abc import Mapping, Sequence

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition


def text(description: str, choices: Sequence[str] = ()) -> Mapping[str, Json]:
    """A string."""
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def number(description: str, least: int, most: int) -> Mapping[str, Json]:
    """A whole number."""
    return {"type": "integer", "description": description, "minimum": least, "maximum": most}


def flag(description: str) -> Mapping[str, Json]:
    """A truth value."""
    return {"type": "boolean", "description": description}


def define(name: str, description: str, required: Sequence[str], **parameters: Mapping[str, Json]) -> ToolDefinition:
    """The definition; a parameter that is not required has its default in its description."""
    schema: Mapping[str, Json] = {"type": "object", "properties": parameters, "required": list(required)}
    return ToolDefinition(name, description, schema)
