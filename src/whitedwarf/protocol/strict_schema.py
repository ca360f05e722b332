"""The schemas of `strict: true`: brought into the one form that is enforced, or refused (spec/recipe.md 7)."""

from whitedwarf.conversation.json_value import Json


def strict_parameters(schema: Json) -> Json:
    """A strict tool's parameters."""
    return schema


def strict_response(schema: Json) -> Json:
    """A strict response schema."""
    return schema
