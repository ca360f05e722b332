"""Whether a value is a JSON Schema, told by the same validator that the official library has (spec/recipe.md 7).

Promises: nothing is fetched: a schema that refers to another document is refused; the time is linear in the schema's
size, and patterns are only compiled, never run. The only place that knows `jsonschema_rs`.
"""

from typing import Any

import jsonschema_rs

from whitedwarf.conversation.json_value import Json


def first_problem(schema: Json) -> str | None:
    """What is wrong with a schema: the validator's first message; None for a good one."""
    try:
        if isinstance(schema, str):  # the validator would read it as JSON text
            jsonschema_rs.validate({"type": ["boolean", "object"]}, schema)
        else:
            given: Any = schema
            jsonschema_rs.validator_for(given, offline=True)
    except jsonschema_rs.ValidationError as error:
        return str(error.message)
    return None
