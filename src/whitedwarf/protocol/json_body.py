"""The body of a request: JSON text to plain Python values.

Promises: well-formed JSON of at most 127 arrays and objects within one another is read by the C scanner, everything
else is refused in linear time with the official library's words (spec/recipe.md 2; json_fault.py finds them). Integers
that 64 bits do not hold become floats; of a key given twice the last value stands in the first one's place. Text of
more than MOST_VALUES values is not read: while the scanner makes them, no other thread gets on. Does not know any
protocol.
"""

import json
import math
import re
from collections.abc import Iterable

from whitedwarf.conversation.json_value import MAX_INTEGER, MIN_INTEGER, Json, check_json
from whitedwarf.errors import ConversationError
from whitedwarf.protocol.body_memory import BodyMemory
from whitedwarf.protocol.failures import InvalidJson, MalformedRequest
from whitedwarf.protocol.history_reader import NewPart, read_with_history
from whitedwarf.protocol.json_fault import MAX_TEXT_DEPTH, first_fault

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_VALUES = 2_000_000
"""A prompt of a million tokens has a tenth of them, commas in its texts counted in."""
_EXACT_DIGITS = 20  # as many characters as the longest integer that stays one


def read_json(body: bytes | str, memory: BodyMemory | None = None) -> Json:
    """The value that a body spells; InvalidJson with the official text if there is none, with ours for too many.

    With a memory, what earlier bodies had too is not read again, and nobody may change the value.
    """
    _check_number(body)
    try:
        if memory is not None and isinstance(body, bytes):
            return _read_on(body, memory)
        return _read(_text_of(body))
    except (ValueError, RecursionError):
        fault = _fault_of(body)
        if fault is None:
            raise
    # Raised here, without the first error: the traceback of a deep body is as long as the body is deep.
    raise InvalidJson(f"invalid JSON request: {fault}")


def checked(value: Json) -> Json:
    """A value that came as Python objects, under the limits of one that came as text; MalformedRequest beyond them."""
    try:
        check_json(value)
    except ConversationError as error:
        raise MalformedRequest(str(error)) from error
    return value


def _check_number(body: bytes | str) -> None:
    """A value stands at the beginning, or behind a comma or the bracket that opens what it is in."""
    if len(body) <= MOST_VALUES:
        return
    encoded = body.encode("utf-8", "replace") if isinstance(body, str) else body
    if sum(map(encoded.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise InvalidJson(f"invalid JSON request: expected at most {MOST_VALUES:,} values, commas counted; got more")


def _text_of(body: bytes | str) -> str:
    if isinstance(body, bytes):
        return body.decode()
    body.encode()  # refuses lone halves of surrogate pairs
    return body


def _read(text: str) -> Json:
    value: Json = _DECODER.decode(text)
    _check_depth(value)
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value)
    return value


def _read_on(body: bytes, memory: BodyMemory) -> Json:
    try:
        return read_with_history(body, _DECODER, _check_new, memory)
    except (ValueError, RecursionError):
        return _read(body.decode())


def _check_new(part: NewPart) -> None:
    _check_depth(part.members)
    if any(map(_SURROGATE_ESCAPE.search, part.texts)):
        _check_surrogates(part.members)


def _check_depth(value: Json) -> None:
    level: list[Iterable[Json]] = [[value]]
    for _ in range(MAX_TEXT_DEPTH + 1):
        inner = [child for parent in level for child in parent if type(child) is list or type(child) is dict]
        if not inner:
            return
        level = [child.values() if isinstance(child, dict) else child for child in inner]
    raise ValueError("nested too deeply")


def _check_surrogates(value: Json) -> None:
    """ValueError if a half of a pair stands alone anywhere; the depth is known to be small."""
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("lone surrogate")


def _integer(text: str) -> int | float:
    if len(text) > _EXACT_DIGITS:
        return _real(text)
    number = int(text)
    if MIN_INTEGER <= number <= MAX_INTEGER:
        return number or _zero(text)
    return float(text)


def _zero(text: str) -> int | float:
    return -0.0 if text[0] == "-" else 0


def _real(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("number out of range")
    return number


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=_refuse_constant)


def _fault_of(body: bytes | str) -> str | None:
    try:
        return first_fault(body.encode() if isinstance(body, str) else body)
    except UnicodeEncodeError as error:
        return str(error)
