"""The title that follows the payload of an agent's session (product.md C.9): u32 length, then UTF-8.

Promises: no bytes upset the reader; of the trailers what is whole is found.
"""

import struct
from dataclasses import dataclass

from whitedwarf.kvstore.header import HAS_FACTS, HAS_TITLE, HAS_TOOLS
from whitedwarf.kvstore.tool_map import tools_end

SIZE = struct.Struct("<I")
LARGEST_UINT32 = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Trailers:
    """What a session's file says of itself; None = not there, or damaged. `facts` are the owner's to read."""

    title: str | None = None
    facts: bytes | None = None


def encode_title(title: str) -> bytes:
    """The trailer; ValueError for one of 4 GiB or more. Lone surrogates become question marks."""
    raw = title.encode(errors="replace")
    if len(raw) > LARGEST_UINT32:
        raise ValueError(f"a title has at most {LARGEST_UINT32} bytes, this has {len(raw)}")
    return SIZE.pack(len(raw)) + raw


def split_trailers(data: bytes, flags: int) -> Trailers:
    """What follows a payload, by the flags of its header."""
    offset = tools_end(data) if flags & HAS_TOOLS else 0
    if offset is None:
        return Trailers()
    title: str | None = None
    if flags & HAS_TITLE:
        begin = offset + SIZE.size
        if begin > len(data):
            return Trailers()
        offset = begin + SIZE.unpack_from(data, offset)[0]
        if offset > len(data):
            return Trailers()
        title = data[begin:offset].decode(errors="replace")
    return Trailers(title, data[offset:] if flags & HAS_FACTS else None)
