"""Which conversation a request belongs to, as digests: for all dialects, in bounded time, whatever the size of a body.

Chat: leading system messages of `messages`; Responses: `instructions`, `input`; Messages: `system`, `messages`; and
`tools`. Of text only the words count, so that marks which clients add (cache_control) change nothing. Nothing is kept.
"""

import hashlib
import json
from typing import Any

from whitedwarf.supervisor.grace import Conversation
from whitedwarf.supervisor.json_spans import Scanner, Span, Unreadable, Work

_MOST_LEADING = 16
_MOST_PARSED_BYTES = 128 << 10
_END_BYTES = 32 << 10
_PASSING_MARK = "x-anthropic-billing-header"
"""Claude Code begins its system text with a line of this name, which is another one in every request."""


def conversation(body: bytes) -> "Work[Conversation | None]":
    """None for what is no request with messages."""
    scanner = Scanner(body)
    try:
        members = yield from scanner.members(scanner.first())
        messages = members.get("messages") or members.get("input")
        if messages is None:
            return None
        leading, first = yield from _beginning(scanner, messages)
        told = [_digest_of(body, members[name]) for name in ("system", "instructions", "tools") if name in members]
    except Unreadable:
        return None
    anchor = _digest(b"".join([*told, *leading]))
    return Conversation(anchor, _digest(anchor + first))


def _beginning(scanner: Scanner, messages: Span) -> "Work[tuple[list[bytes], bytes]]":
    """Digests of the system messages at the start, and of the user's first one."""
    leading: list[bytes] = []
    if scanner.body[messages[0] : messages[0] + 1] == b'"':
        return leading, _digest_of(scanner.body, messages)
    elements = yield from scanner.first_elements(messages[0], _MOST_LEADING)
    for start, _ in elements:
        if scanner.body[start : start + 1] != b"{":
            continue
        members = yield from scanner.members(start)
        role = scanner.body[slice(*members["role"])] if "role" in members else b""
        content = _digest_of(scanner.body, members["content"]) if "content" in members else b""
        if role in (b'"system"', b'"developer"'):
            leading.append(content)
        elif role == b'"user"':
            return leading, content
    return leading, b""


def _digest_of(body: bytes, span: Span) -> bytes:
    start, end = span
    if end - start > _MOST_PARSED_BYTES:
        ends = body[start : start + _END_BYTES] + body[end - _END_BYTES : end]
        return _digest(b"%d:" % (end - start) + ends)
    raw = body[start:end]
    try:
        words = _words(json.loads(raw))
    except (ValueError, RecursionError):
        words = None
    return _digest(raw if words is None else "\0".join(words).encode("utf-8", "surrogatepass"))


def _words(value: Any) -> list[str] | None:
    """The texts of a string or of parts that are texts; None for anything else, which counts as it is written."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return None
    words: list[str] = []
    for part in value:
        if not isinstance(part, dict) or not isinstance(text := part.get("text"), str):
            return None
        if not text.startswith(_PASSING_MARK):
            words.append(text)
    return words


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
