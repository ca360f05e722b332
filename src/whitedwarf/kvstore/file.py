"""The bytes of a KVC file around its payload (product.md B.18, model.md 7.2): header, key text, map of tool calls.

Promises: corrupt input raises FileFormatError and nothing else; nothing is read past the end of the file or allocated
because of a number that the file cannot hold. Of the payload only the size is known here.
"""

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.payload import PayloadKind

MAGIC = b"KVC"
VERSION = 1
HEADER = struct.Struct("<3s5B3I2BH3Q")
TEXT_SIZE = struct.Struct("<I")
HEAD_BYTES = HEADER.size + TEXT_SIZE.size
LARGEST_UINT32 = 2**32 - 1
OTHERS = 0o077  # what a private file lets nobody else do
ROOT = 0
FLAGS_OFFSET, HITS_OFFSET, LAST_USED_OFFSET = 6, 12, 32  # what is changed in place

PAYLOAD_KINDS: dict[int, PayloadKind] = {0: PayloadKind.DS4} | {kind: kind for kind in PayloadKind}  # by byte 20

HAS_TOOLS = 1  # a map of tool calls follows the payload
RESPONSES_VISIBLE = 2  # the key text is what a Responses client will send again, not what the tokens say
THINKING_VISIBLE = 4  # the same for a chat without tools whose reasoning the client drops
KNOWN_FLAGS = HAS_TOOLS | RESPONSES_VISIBLE | THINKING_VISIBLE

TOOLS_MAGIC = b"KTM"
TOOLS_HEAD = struct.Struct("<3sBI")
TOOLS_ENTRY = struct.Struct("<II")
LONGEST_ID_BYTES = 256
LARGEST_BLOCK_BYTES = 512 << 20
MAX_TOOL_IDS = 100_000

ToolBlocks = Mapping[str, bytes]  # tool call id -> the text that the model wrote for the call's whole block


class Reason(IntEnum):
    """Why a prefix was saved."""

    UNKNOWN = 0
    COLD = 1
    CONTINUED = 2
    EVICT = 3
    SHUTDOWN = 4
    AGENT_SYSTEM = 5
    AGENT_SESSION = 6


@dataclass(frozen=True, slots=True)
class Header:
    """The first 48 bytes. `row_kind` and `model_mark` are ours, in bytes that ds4 reserves; 0 = not said."""

    quant_bits: int  # 2 or 4: of the routed experts
    reason: Reason
    num_tokens: int
    context_length: int  # of the session that saved
    payload_bytes: int
    created: int  # unix seconds, as `last_used`
    last_used: int
    hits: int = 0
    flags: int = 0
    model_id: int = 0  # 0 Flash, 1 PRO
    payload_kind: PayloadKind = PayloadKind.DS4
    row_kind: int = 0  # how the saver kept its rows in memory
    model_mark: int = 0  # of the weights

    def to_bytes(self) -> bytes:
        return HEADER.pack(
            MAGIC,
            VERSION,
            self.quant_bits,
            self.reason,
            self.flags,
            self.model_id,
            self.num_tokens,
            self.hits,
            self.context_length,
            self.payload_kind,
            self.row_kind,
            self.model_mark,
            self.created,
            self.last_used,
            self.payload_bytes,
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> "Header":
        """Raises FileFormatError naming the field, what it holds and what it may hold."""
        if len(data) < HEADER.size:
            raise _refusal(name, "header", f"{len(data)} bytes", f"{HEADER.size}")
        fields = HEADER.unpack_from(data)
        magic, version, bits, reason, flags, model, tokens, hits, context, kind, rows, mark = fields[:12]
        created, last_used, payload_bytes = fields[12:]
        _expect(magic == MAGIC, name, "magic", magic, repr(MAGIC))
        _expect(version == VERSION, name, "version", version, str(VERSION))
        _expect(bits in (2, 4), name, "routed quant bits", bits, "2 or 4")
        _expect(tokens != 0, name, "token count", tokens, "at least 1")
        _expect(kind in PAYLOAD_KINDS, name, "payload ABI", kind, f"one of {sorted(PAYLOAD_KINDS)}")
        payload = PAYLOAD_KINDS[kind]
        why = Reason(reason) if reason in list(Reason) else Reason.UNKNOWN
        times = created, last_used
        return cls(bits, why, tokens, context, payload_bytes, *times, hits, flags, model, payload, rows, mark)


class KvFile:
    """One open file. Everything is read through one descriptor, so a rename over its name changes nothing here."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Open and check the head. Raises FileFormatError, or OSError when it cannot be opened at all."""
        # not through links, and without waiting for the writer of a named pipe
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self.path = path
        self._descriptor = os.open(path, flags)
        try:
            self.size_bytes = self._regular_size()
            head = self._read(0, HEAD_BYTES, "header")
            self.header = Header.from_bytes(head, path.name)
            self.text_bytes = int(TEXT_SIZE.unpack_from(head, HEADER.size)[0])
            declared = self.tools_offset
            _expect(declared <= self.size_bytes, path.name, "size", self.size_bytes, f"at least {declared} bytes")
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> "KvFile":
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    @property
    def tools_offset(self) -> int:
        """Where the payload ends."""
        return HEAD_BYTES + self.text_bytes + self.header.payload_bytes

    def text(self) -> bytes:
        return self._read(HEAD_BYTES, self.text_bytes, "key text")

    def payload(self) -> bytes:
        return self._read(HEAD_BYTES + self.text_bytes, self.header.payload_bytes, "payload")

    def payload_start(self, size: int) -> bytes:
        """The first `size` bytes of the payload, if there are so many."""
        return self._read(HEAD_BYTES + self.text_bytes, min(size, self.header.payload_bytes), "payload")

    def tools(self, max_ids: int = MAX_TOOL_IDS) -> dict[str, bytes]:
        """The saved tool blocks; of a damaged map what comes before the damage."""
        if not self.header.flags & HAS_TOOLS:
            return {}
        size = self.size_bytes - self.tools_offset
        return decode_tools(self._read(self.tools_offset, size, "tool map"), max_ids)

    def make_private(self) -> bool:
        """Whether others could read or change it until now. Raises OSError."""
        if not os.fstat(self._descriptor).st_mode & OTHERS:
            return False
        os.fchmod(self._descriptor, 0o600)
        return True

    def count_hit(self, now: int) -> None:
        hits = min(self.header.hits + 1, LARGEST_UINT32)
        self._rewrite(HITS_OFFSET, hits.to_bytes(4, "little"))
        self.header = replace(self.header, hits=hits)
        self.mark_used(now)

    def mark_used(self, now: int) -> None:
        self._rewrite(LAST_USED_OFFSET, now.to_bytes(8, "little"))
        self.header = replace(self.header, last_used=now)

    def rewrite_tools(self, blocks: ToolBlocks, now: int) -> None:
        """Replace what follows the payload. The flag is off meanwhile: a crash costs the map, never the file."""
        self.mark_used(now)
        self._set_flags(self.header.flags & ~HAS_TOOLS)
        os.ftruncate(self._descriptor, self.tools_offset)
        if blocks:
            write_all(self._descriptor, encode_tools(blocks), self.tools_offset)
            self._set_flags(self.header.flags | HAS_TOOLS)

    def _set_flags(self, flags: int) -> None:
        self._rewrite(FLAGS_OFFSET, bytes([flags]))
        self.header = replace(self.header, flags=flags)

    def _rewrite(self, offset: int, field: bytes) -> None:
        """One field of the header and no other: somebody else may be changing those at the same time."""
        os.pwrite(self._descriptor, field, offset)

    def _regular_size(self) -> int:
        status = os.fstat(self._descriptor)
        _expect(stat.S_ISREG(status.st_mode), self.path.name, "kind of file", oct(status.st_mode), "a regular file")
        # states and the words of tool calls go into prompts: nobody else may write them
        us = os.geteuid()
        _expect(status.st_uid in (us, ROOT), self.path.name, "owner", f"user {status.st_uid}", f"user {us}")
        return status.st_size

    def _read(self, offset: int, size: int, what: str) -> bytes:
        left = max(0, self.size_bytes - offset)
        _expect(size <= left, self.path.name, what, f"{left} bytes", f"{size}")
        parts, end = [], offset + size
        while offset < end and (part := os.pread(self._descriptor, end - offset, offset)):
            parts.append(part)
            offset += len(part)
        _expect(offset == end, self.path.name, what, f"{end - offset} bytes less than it had", f"{size}")
        return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write everything at `offset`; return the offset after it. Raises OSError."""
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return offset


def encode_tools(blocks: ToolBlocks) -> bytes:
    """The trailer; ValueError for an id that no reader would take."""
    parts = [TOOLS_HEAD.pack(TOOLS_MAGIC, 1, len(blocks))]
    for call_id, block in blocks.items():
        raw = call_id.encode()
        if not 1 <= len(raw) <= LONGEST_ID_BYTES:
            raise ValueError(f"a tool call id has 1 to {LONGEST_ID_BYTES} bytes; {call_id[:40]!r} has {len(raw)}")
        parts += [TOOLS_ENTRY.pack(len(raw), len(block)), raw, block]
    return b"".join(parts)


def decode_tools(data: bytes, max_ids: int = MAX_TOOL_IDS) -> dict[str, bytes]:
    """What of a trailer can be read: reading stops at the first entry that is not right."""
    if len(data) < TOOLS_HEAD.size:
        return {}
    magic, version, count = TOOLS_HEAD.unpack_from(data)
    if magic != TOOLS_MAGIC or version != 1 or count > 4 * max_ids:
        return {}
    blocks: dict[str, bytes] = {}
    offset = TOOLS_HEAD.size
    for _ in range(count):
        entry = _tools_entry(data, offset)
        if entry is None:
            break
        call_id, block, offset = entry
        blocks[call_id] = block
    return blocks


def _tools_entry(data: bytes, offset: int) -> tuple[str, bytes, int] | None:
    if offset + TOOLS_ENTRY.size > len(data):
        return None
    id_bytes, block_bytes = TOOLS_ENTRY.unpack_from(data, offset)
    begin = offset + TOOLS_ENTRY.size
    middle, end = begin + id_bytes, begin + id_bytes + block_bytes
    if not 1 <= id_bytes <= LONGEST_ID_BYTES or block_bytes > LARGEST_BLOCK_BYTES or end > len(data):
        return None
    try:
        return data[begin:middle].decode(), data[middle:end], end
    except UnicodeDecodeError:
        return None


def _expect(is_right: bool, name: str, subject: str, found: object, expected: str) -> None:
    if not is_right:
        raise _refusal(name, subject, str(found), expected)


def _refusal(name: str, subject: str, found: str, expected: str) -> FileFormatError:
    return FileFormatError(f"{name}: {subject}: found {found}; expected {expected}. It is not used; delete it.")
