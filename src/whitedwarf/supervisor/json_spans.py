"""Where the members of a JSON object lie in its bytes, without making values of them.

For bodies of 20 MiB and more: `json` makes several copies, and blocks the event loop for as long as it takes. Here a
step is a structural character or a string, found at the speed of memchr, and every `STEPS_AT_ONCE` of them the loop
gets its turn (`finished`). Reads what is valid JSON rightly; of what is not it finds out only what it stumbles over.
"""

import asyncio
import re
from collections.abc import Generator
from typing import TypeVar

STEPS_AT_ONCE = 1_000
MOST_STEPS = 2_000_000
_MOST_MEMBERS = 10_000
_STRETCH_BYTES = 64 << 10
_STEPS_A_STRETCH = 20

_MARK = b"\xef\xbb\xbf"  # Windows' editors begin with it
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRUCTURE = re.compile(rb'["{}\[\]]')
_WITHIN_STRING = re.compile(rb'(?:[^"\\]*+\\.)*+[^"\\]*+', re.DOTALL)
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]+")

Result = TypeVar("Result")
Work = Generator[None, None, Result]
"""Stops now and then, so that others can work; returns its result."""

Span = tuple[int, int]


class Unreadable(ValueError):  # noqa: N818  (its owner passes the bytes on as they are)
    """Not JSON, or not of the form that was expected, or too much of it."""


class Scanner:
    """Of one body. `start` is where a value begins, ends are behind it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._steps = 0

    def members(self, start: int) -> "Work[dict[str, Span]]":
        """The spans of an object's values; of a name that comes twice the last one."""
        found: dict[str, Span] = {}
        at = self._after(start, b"{")
        while not self._is_at(at, b"}"):
            end = yield from self._string_end(at)
            name = self.body[at + 1 : end - 1].decode("utf-8", "replace")
            value = self._after(self._skip_space(end), b":")
            at = yield from self.end_of(value)
            found[name] = (value, at)
            if len(found) > _MOST_MEMBERS:
                raise Unreadable("it has too many members")
            at = self._next(at, b"}")
            yield from self._count_step()
        return found

    def first_elements(self, start: int, most: int) -> "Work[list[Span]]":
        """The spans of the first elements of an array."""
        found: list[Span] = []
        at = self._after(start, b"[")
        while len(found) < most and not self._is_at(at, b"]"):
            end = yield from self.end_of(at)
            found.append((at, end))
            at = self._next(end, b"]")
        return found

    def end_of(self, start: int) -> "Work[int]":
        """Where the value ends that begins there."""
        first = self.body[start : start + 1]
        if first == b'"':
            return (yield from self._string_end(start))
        if first not in (b"{", b"["):
            scalar = _SCALAR.match(self.body, start)
            if scalar is None:
                raise Unreadable(f"expected a value at byte {start}")
            return scalar.end()
        return (yield from self._nested_end(start))

    def _nested_end(self, start: int) -> "Work[int]":
        depth, at = 0, start
        while True:
            found = _STRUCTURE.search(self.body, at)
            if found is None:
                raise Unreadable("it ends within a value")
            at = found.end()
            if found[0] == b'"':
                at = self._plain_string_end(found.start()) or (yield from self._string_end(found.start()))
            else:
                depth += 1 if found[0] in b"{[" else -1
                if depth == 0:
                    return at
            yield from self._count_step()

    def _string_end(self, start: int) -> "Work[int]":
        if not self._is_at(start, b'"'):
            raise Unreadable(f"expected a string at byte {start}")
        end = self._plain_string_end(start)
        at = start + 1
        while end == 0:
            yield from self._step(_STEPS_A_STRETCH)
            found = _WITHIN_STRING.match(self.body, at, at + _STRETCH_BYTES)
            assert found is not None  # it matches nothing at all, too
            if self._is_at(found.end(), b'"'):
                end = found.end() + 1
            elif found.end() == at:
                raise Unreadable("it ends within a string")
            at = found.end()
        return end

    def _plain_string_end(self, start: int) -> int:
        """0 where it has escaped characters."""
        quote = self.body.find(b'"', start + 1)
        if quote < 0:
            raise Unreadable("it ends within a string")
        return quote + 1 if self.body.find(b"\\", start + 1, quote) < 0 else 0

    def _count_step(self) -> Generator[None, None, None]:
        self._steps += 1
        if self._steps % STEPS_AT_ONCE == 0:
            yield from self._step()

    def _step(self, count: int = 1) -> Generator[None, None, None]:
        before = self._steps // STEPS_AT_ONCE
        self._steps += count
        if self._steps > MOST_STEPS:
            raise Unreadable("it has too many parts")
        if self._steps // STEPS_AT_ONCE > before or count == 1:
            yield

    def _next(self, at: int, closing: bytes) -> int:
        at = self._skip_space(at)
        if self._is_at(at, closing):
            return at
        at = self._after(at, b",")
        if self._is_at(at, closing):
            raise Unreadable(f"expected another value at byte {at}")
        return at

    def _after(self, at: int, sign: bytes) -> int:
        if not self._is_at(at, sign):
            raise Unreadable(f"expected {sign!r} at byte {at}")
        return self._skip_space(at + 1)

    def _is_at(self, at: int, sign: bytes) -> bool:
        return self.body[at : at + 1] == sign

    def _skip_space(self, at: int) -> int:
        found = _SPACE.match(self.body, at)
        return at if found is None else found.end()

    def first(self) -> int:
        """Where the first value begins."""
        return self._skip_space(len(_MARK) if self.body.startswith(_MARK) else 0)


def finished_now(work: "Work[Result]") -> Result:
    """Its result, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


async def finished(work: "Work[Result]") -> Result:
    """Its result; others get their turn meanwhile."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(0)
