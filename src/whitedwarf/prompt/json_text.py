"""JSON string escapes as the official parser writes them: only what JSON demands, everything else as it is."""

import json
from functools import partial

_quote = partial(json.dumps, ensure_ascii=False)


def escaped(text: str) -> str:
    """The inside of a JSON string: `"`, backslash and C0 controls escaped."""
    return _quote(text)[1:-1]


def quoted(text: str) -> str:
    """A whole JSON string."""
    return _quote(text)
