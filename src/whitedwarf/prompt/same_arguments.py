"""Whether two texts of arguments make the same call: clients write the JSON that they got in their own way."""

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.arguments import parse_arguments


def same_arguments(one: str, other: str) -> bool:
    """Equal texts, or equal JSON objects: the order of members and the spelling of numbers do not count."""
    if one == other:
        return True
    left, right = parse_arguments(one), parse_arguments(other)
    return left is not None and right is not None and same_value(left, right)


def same_value(one: Json, other: Json) -> bool:
    """Equal as JSON: 1 is 1.0, but neither is true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other
