"""Arguments as a tool's schema wants them: models write numbers and flags as strings now and then. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from whitedwarf.conversation.json_value import Json

_READ_AS: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def fitted(arguments: Mapping[str, Json], schema: Json) -> dict[str, Any]:
    """Strings that are JSON of the type that the schema names become that; everything else stays as it is."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    known = properties if isinstance(properties, Mapping) else {}
    return {name: _value(value, known.get(name)) for name, value in arguments.items()}


def _value(value: Json, schema: Json) -> Json:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    wanted = _READ_AS.get(kind) if isinstance(kind, str) else None
    if wanted is None or not isinstance(value, str):
        return value
    try:
        read: Json = json.loads(value.strip().lower() if kind == "boolean" else value)
    except (ValueError, RecursionError):
        return value
    is_flag = isinstance(read, bool)
    return read if isinstance(read, wanted) and is_flag == (kind == "boolean") else value
