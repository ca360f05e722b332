"""JSON text inside tool calls: escapes as the official parser writes them, and whether a value is JSON at all."""

import json
from functools import partial

_quote = partial(json.dumps, ensure_ascii=False)


def escaped(text: str) -> str:
    """The inside of a JSON string: `"`, backslash and C0 controls escaped, everything else as it is."""
    return _quote(text)[1:-1]


def quoted(text: str) -> str:
    """A whole JSON string."""
    return _quote(text)


def is_json(text: str) -> bool:
    """Whether the text is one JSON value; NaN and nesting beyond what clients can read are none."""
    try:
        # Numbers stay text: reading one with very many digits would be slow or refused.
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def is_json_object(text: str) -> bool:
    """Whether the text is one JSON object, blanks around it or not."""
    return text.lstrip().startswith("{") and is_json(text)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")
