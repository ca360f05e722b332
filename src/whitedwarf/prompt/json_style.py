"""JSON as DeepSeek's prompts spell it: one space after comma and colon, no ASCII escapes, and two ways with floats.

Promises: the exact text of the official encoders for any value that `check_json` allows (spec/recipe.md 9).
"""

import json
from enum import Enum
from typing import cast

from whitedwarf.conversation.json_value import Json


class FloatStyle(Enum):
    """V4.1 writes floats as Python does (1e-07, 1e-05); V4 shortens exponents and delays them (1e-7, 0.00001)."""

    V4 = "V4"
    V41 = "V4.1"


class Spacing(Enum):
    """Separators of arrays and of objects."""

    SPACED = (", ", ": ")
    COMPACT = (",", ":")


# json.dumps would make a new one for each value.
_ENCODERS = {
    spacing: json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=spacing.value) for spacing in Spacing
}


def dumps(value: Json, floats: FloatStyle, spacing: Spacing = Spacing.SPACED) -> str:
    """One JSON value as text, keys in their order."""
    text = _ENCODERS[spacing].encode(value)
    if floats is FloatStyle.V41 or "e-" not in text:  # the two styles differ in negative exponents only
        return text
    return "".join(_pieces(value, *spacing.value))


def _pieces(value: Json, comma: str, colon: str) -> list[str]:
    """Slow but ours: needed where a small float may occur."""
    if isinstance(value, float):
        return [v4_float(value)]
    if isinstance(value, dict):
        pieces = ["{"]
        for key, member in cast(dict[str, Json], value).items():
            pieces += [_scalar(key), colon, *_pieces(member, comma, colon), comma]
        return _closed(pieces, "}")
    if isinstance(value, list | tuple):
        pieces = ["["]
        for item in value:
            pieces += [*_pieces(item, comma, colon), comma]
        return _closed(pieces, "]")
    return [_scalar(value)]


def _closed(pieces: list[str], bracket: str) -> list[str]:
    if len(pieces) > 1:
        pieces.pop()  # the last comma
    return [*pieces, bracket]


def _scalar(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def v4_float(number: float) -> str:
    """Shortest digits; positional from 1e-5 on, and no leading zero in an exponent."""
    text = repr(number)
    mantissa, mark, exponent = text.partition("e-")
    if not mark:
        return text
    if int(exponent) > 5:
        return f"{mantissa}e-{int(exponent)}"
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    return f"{sign}0.{'0' * (int(exponent) - 1)}{digits}"
