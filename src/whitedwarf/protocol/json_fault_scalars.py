"""Where a string, number or word of JSON text ends, or what is wrong with it (the scalars of json_fault.py).

Each function takes the text and the place of the scalar's first byte after what tells its kind, and gives the place
after its end. Promises: linear time; the official library's words and positions (serde_json's).
"""

import re

_PLAIN = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])*+')
_DIGITS = re.compile(rb"[0-9]*")
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_MAX_EXPONENT = 2**31 - 1
_END_OF_STRING = "EOF while parsing a string"
_END_OF_VALUE = "EOF while parsing a value"


class Fault(Exception):  # noqa: N818  (never leaves the reader)
    """The first fault of a text; `position` is the number of bytes before it and in it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def string_end(data: bytes, at: int) -> int:
    """After the closing quote of a string whose first character is at `at`."""
    start = at
    while True:
        at = _matched(_PLAIN, data, at)
        if at == len(data):
            raise Fault(_END_OF_STRING, at)
        match data[at]:
            case 0x22:
                return _checked_text(data, start, at)
            case 0x5C:
                at = _escape_end(data, at + 1)
            case _:
                raise Fault("control character (\\u0000-\\u001F) found while parsing a string", at + 1)


def _checked_text(data: bytes, start: int, end: int) -> int:
    try:
        data[start:end].decode()
    except UnicodeDecodeError:
        raise Fault("invalid unicode code point", end + 1) from None
    return end + 1


def _escape_end(data: bytes, at: int) -> int:
    if at == len(data):
        raise Fault(_END_OF_STRING, at)
    if data[at] != ord("u"):
        raise Fault("invalid escape", at + 1)
    unit, at = _code_unit(data, at + 1)
    if 0xDC00 <= unit < 0xE000:
        raise Fault("lone leading surrogate in hex escape", at)
    return _second_half_end(data, at) if 0xD800 <= unit < 0xDC00 else at


def _second_half_end(data: bytes, at: int) -> int:
    for expected in b"\\u":
        if at == len(data):
            raise Fault(_END_OF_STRING, at)
        at += 1
        if data[at - 1] != expected:
            raise Fault("unexpected end of hex escape", at)
    unit, at = _code_unit(data, at)
    if not 0xDC00 <= unit < 0xE000:
        raise Fault("lone leading surrogate in hex escape", at)
    return at


def _code_unit(data: bytes, at: int) -> tuple[int, int]:
    digits = data[at : at + 4]
    if len(digits) < 4:
        raise Fault(_END_OF_STRING, len(data))
    if not _HEX.fullmatch(digits):
        raise Fault("invalid escape", at + 4)
    return int(digits, 16), at + 4


def word_end(data: bytes, at: int, word: bytes) -> int:
    """After `word` (true, false, null), whose first letter is at `at`."""
    for expected in word:
        if at == len(data):
            raise Fault(_END_OF_VALUE, at)
        at += 1
        if data[at - 1] != expected:
            raise Fault("expected ident", at)
    return at


def number_end(data: bytes, at: int) -> int:
    """After the number whose sign or first digit is at `at`; it has to be one that a float can hold."""
    start = at
    at += data[at : at + 1] == b"-"
    at = _fraction_end(data, _whole_end(data, at))
    if data[at : at + 1] in (b"e", b"E"):
        at = _exponent_end(data, start, at)
    if float(data[start:at]) in (float("inf"), float("-inf")):
        raise Fault("number out of range", at)
    return at


def _whole_end(data: bytes, at: int) -> int:
    first = data[at : at + 1]
    if not first:
        raise Fault(_END_OF_VALUE, at)
    if not first.isdigit():
        raise Fault("invalid number", at + 1)
    if first != b"0":
        return _matched(_DIGITS, data, at)
    if data[at + 1 : at + 2].isdigit():
        raise Fault("invalid number", at + 2)
    return at + 1


def _fraction_end(data: bytes, at: int) -> int:
    if data[at : at + 1] != b".":
        return at
    end = _matched(_DIGITS, data, at + 1)
    if end == at + 1:
        raise _no_digit(data, end)
    return end


def _exponent_end(data: bytes, start: int, at: int) -> int:
    digits = at + 1
    sign = data[digits : digits + 1]
    digits += sign in (b"+", b"-") and bool(sign)
    end = _matched(_DIGITS, data, digits)
    if end == digits:
        raise _no_digit(data, end)
    is_zero = not data[start:at].strip(b"-0.")
    if sign != b"-" and not is_zero:
        _check_exponent(data, digits, end)
    return end


def _check_exponent(data: bytes, at: int, end: int) -> None:
    """An exponent beyond 32 bits is given up at the digit that makes it so."""
    exponent = 0
    while at < end:
        exponent = exponent * 10 + data[at] - ord("0")
        at += 1
        if exponent > _MAX_EXPONENT:
            raise Fault("number out of range", at)


def _no_digit(data: bytes, at: int) -> Fault:
    return Fault("invalid number", at + 1) if at < len(data) else Fault(_END_OF_VALUE, at)


def _matched(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    assert found is not None  # every pattern here matches the empty text
    return found.end()
