"""The few fields of a request's body that the supervisor heeds, read without reading the rest where that can be.

Bodies are forwarded as they came, whatever they hold: what is no JSON is for the server behind to refuse. A search for
a field's name comes first, since most bodies have none and some have 30 MB; within strings quotes are escaped, so that
text which looks like a field is not found. What is read is read in bounded steps (`Work`, json_spans.py): nobody else
waits for a body that was made to take long.
"""

import json
import math
import re
from collections.abc import Set
from itertools import islice
from typing import Any

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.json_spans import Scanner, Unreadable, Work

_STREAM = re.compile(rb'"stream"\s*:\s*true')
_KEEP_ALIVE = re.compile(rb'"keep_alive"\s*:')
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.){0,4096}+")')
_MOST_MENTIONS = 1000
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_DURATION = 64
_FOR_EVER_S = 1e9
_READ_AT_ONCE_BYTES = 64 << 10
_LONGEST_FIELD_BYTES = 4 << 10
_EXPECTED = 'expected seconds, or a duration like "10m", 0 for at once, or a negative number for never'


def wants_stream(body: bytes) -> Work[bool]:
    """Whether events are asked for."""
    return _STREAM.search(body) is not None and (yield from _field(body, "stream")) is True


def named_model(body: bytes, known: Set[str]) -> Work[str | None]:
    """The model that is named, if it is one of these."""
    if not _may_name(body, known):
        return None
    named = yield from _field(body, "model")
    return named if isinstance(named, str) and named in known else None


def keep_alive_s(body: bytes) -> Work[float | None]:
    """How long the model is to stay after this request, negative for ever; None: as it is set. UsageError."""
    if _KEEP_ALIVE.search(body) is None:
        return None
    value = yield from _field(body, "keep_alive")
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None or math.isnan(seconds):
        raise UsageError(f"keep_alive: {_EXPECTED}; got {json.dumps(value)[:80]}")
    return max(-_FOR_EVER_S, min(seconds, _FOR_EVER_S))  # of what is infinite JSON could not tell


def _may_name(body: bytes, known: Set[str]) -> bool:
    mentions = enumerate(islice(_MODEL.finditer(body), _MOST_MENTIONS + 1))
    return any(count == _MOST_MENTIONS or _text(found[1]) in known for count, found in mentions)


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
        return math.inf if value > 0 else -math.inf


def _duration_s(text: str) -> float | None:
    """Go's durations, which Ollama reads, and plain numbers."""
    if len(text) > _LONGEST_DURATION:  # searching it takes the square of its length
        return None
    sign = -1.0 if text.startswith("-") else 1.0
    size = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", size, re.ASCII):
        return sign * float(size)
    parts = list(_PART.finditer(size))
    if not parts or "".join(part[0] for part in parts) != size:
        return None
    return sign * sum(float(part[1]) * _UNIT_S[part[2]] for part in parts)


def _field(body: bytes, name: str) -> Work[Any]:
    """A member of the object that the body is; None where there is none."""
    if len(body) <= _READ_AT_ONCE_BYTES:
        value = _value(body)
        return value.get(name) if isinstance(value, dict) else None
    scanner = Scanner(body)
    try:
        members = yield from scanner.members(scanner.first())
    except Unreadable:
        return None
    start, end = members.get(name, (0, 0))
    # No value that is heeded is long, so that what is said of it instead will do.
    return _value(body[start:end]) if end - start <= _LONGEST_FIELD_BYTES else f"{end - start} bytes"


def _value(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(literal: bytes) -> str | None:
    value = _value(literal)
    return value if isinstance(value, str) else None
