"""The few fields of a request's body that the supervisor heeds, read without reading the rest where that can be.

Bodies are forwarded as they came, whatever they hold: what is no JSON is for the server behind to refuse. A search for
a field's name comes first, since most bodies have none and some have 30 MB; within strings quotes are escaped, so that
text which looks like a field is not found.
"""

import json
import math
import re
from collections.abc import Set
from typing import Any

from whitedwarf.errors import UsageError

_STREAM = re.compile(rb'"stream"\s*:\s*true')
_KEEP_ALIVE = re.compile(rb'"keep_alive"\s*:')
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_EXPECTED = 'expected seconds, or a duration like "10m", 0 for at once, or a negative number for never'


def wants_stream(body: bytes) -> bool:
    """Whether events are asked for."""
    return _STREAM.search(body) is not None and _fields(body).get("stream") is True


def named_model(body: bytes, known: Set[str]) -> str | None:
    """The model that is named, if it is one of these."""
    if not any(_text(found[1]) in known for found in _MODEL.finditer(body)):
        return None
    named = _fields(body).get("model")
    return named if isinstance(named, str) and named in known else None


def keep_alive_s(body: bytes) -> float | None:
    """How long the model is to stay after this request, negative for ever; None: as it is set. UsageError."""
    if _KEEP_ALIVE.search(body) is None:
        return None
    value = _fields(body).get("keep_alive")
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None or math.isnan(seconds):
        raise UsageError(f"keep_alive: {_EXPECTED}; got {json.dumps(value)[:80]}")
    return seconds


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _float(value)
    return _duration_s(value.strip()) if isinstance(value, str) else None


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _duration_s(text: str) -> float | None:
    """Go's durations, which Ollama reads, and plain numbers."""
    sign = -1.0 if text.startswith("-") else 1.0
    size = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", size, re.ASCII):
        return sign * float(size)
    parts = list(_PART.finditer(size))
    if not parts or "".join(part[0] for part in parts) != size:
        return None
    return sign * sum(float(part[1]) * _UNIT_S[part[2]] for part in parts)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(literal: bytes) -> str | None:
    try:
        value = json.loads(literal)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
