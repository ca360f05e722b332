"""The map of tool calls that may follow a payload (product.md B.18, model.md 7.2): call ids and what the model wrote.

Promises: no bytes upset the reader; of a damaged map it takes what comes before the damage.
"""

import struct
from collections.abc import Mapping

MAGIC = b"KTM"
HEAD = struct.Struct("<3sBI")
ENTRY = struct.Struct("<II")
LONGEST_ID_BYTES = 256
LARGEST_BLOCK_BYTES = 512 << 20
LONGEST_TOKEN_BYTES = 16  # of those that end a block
MAX_IDS = 100_000

ToolBlocks = Mapping[str, bytes]  # tool call id -> the text that the model wrote for the call's whole block


def encode_tools(blocks: ToolBlocks) -> bytes:
    """The trailer; ValueError for an id that no reader would take."""
    parts = [HEAD.pack(MAGIC, 1, len(blocks))]
    for call_id, block in blocks.items():
        raw = call_id.encode()
        if not 1 <= len(raw) <= LONGEST_ID_BYTES:
            raise ValueError(f"a tool call id has 1 to {LONGEST_ID_BYTES} bytes; {call_id[:40]!r} has {len(raw)}")
        parts += [ENTRY.pack(len(raw), len(block)), raw, block]
    return b"".join(parts)


def decode_tools(data: bytes, max_ids: int = MAX_IDS) -> dict[str, bytes]:
    """What of a trailer can be read: reading stops at the first entry that is not right."""
    if len(data) < HEAD.size:
        return {}
    magic, version, count = HEAD.unpack_from(data)
    if magic != MAGIC or version != 1 or count > 4 * max_ids:
        return {}
    blocks: dict[str, bytes] = {}
    offset = HEAD.size
    for _ in range(count):
        entry = _entry(data, offset)
        if entry is None:
            break
        call_id, block, offset = entry
        blocks[call_id] = block
    return blocks


def tools_end(data: bytes) -> int | None:
    """Where the map that `data` begins with ends; None when it is damaged."""
    if len(data) < HEAD.size or data[:4] != MAGIC + b"\x01":
        return None
    offset: int = HEAD.size
    for _ in range(HEAD.unpack_from(data)[2]):
        entry = _entry(data, offset)
        if entry is None:
            return None
        offset = entry[2]
    return offset


def _entry(data: bytes, offset: int) -> tuple[str, bytes, int] | None:
    if offset + ENTRY.size > len(data):
        return None
    id_bytes, block_bytes = ENTRY.unpack_from(data, offset)
    begin = offset + ENTRY.size
    middle, end = begin + id_bytes, begin + id_bytes + block_bytes
    if not 1 <= id_bytes <= LONGEST_ID_BYTES or block_bytes > LARGEST_BLOCK_BYTES or end > len(data):
        return None
    try:
        return data[begin:middle].decode(), data[middle:end], end
    except UnicodeDecodeError:
        return None


def occurring(blocks: ToolBlocks, text: bytes) -> dict[str, bytes]:
    """Those that occur in the text, as all of a file do unless it is damaged. Calls of a message share one.

    The one that ends it counts without its last token: that was drawn, but is not in the state. Quick where they come
    in the order in which they occur.
    """
    present: set[bytes] = set()
    place = 0
    for block in filter(None, dict.fromkeys(blocks.values())):
        found = text.find(block, place)
        if found < 0:
            found = text.find(block, 0, place + len(block) - 1)
        if found >= 0 or _is_cut_off(block, text):
            present.add(block)
            place = max(found, 0)
    return {call_id: block for call_id, block in blocks.items() if block in present}


def _is_cut_off(block: bytes, text: bytes) -> bool:
    cuts = range(1, min(LONGEST_TOKEN_BYTES, len(block) // 2) + 1)
    return any(text.endswith(block[:-cut]) for cut in cuts)
