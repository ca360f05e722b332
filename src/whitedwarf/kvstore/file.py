"""The bytes of a KVC file around its payload (product.md B.18, model.md 7.2): header, key text, map of tool calls.

Promises: corrupt input raises FileFormatError and nothing else; nothing is read past the end of the file or allocated
because of a number that the file cannot hold. Of the payload only the size is known here.
"""

import os
import stat
import struct
from dataclasses import replace
from pathlib import Path

from whitedwarf.kvstore.header import FLAGS_OFFSET, HAS_TOOLS, HEADER, HITS_OFFSET, LAST_USED_OFFSET, Header, expect
from whitedwarf.kvstore.tool_map import MAX_IDS, ToolBlocks, decode_tools, encode_tools

TEXT_SIZE = struct.Struct("<I")
HEAD_BYTES = HEADER.size + TEXT_SIZE.size
LARGEST_UINT32 = 2**32 - 1
OTHERS = 0o077  # what a private file lets nobody else do
ROOT = 0


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
            expect(declared <= self.size_bytes, path.name, "size", self.size_bytes, f"at least {declared} bytes")
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

    def tools(self, max_ids: int = MAX_IDS) -> dict[str, bytes]:
        """The saved tool blocks; of a damaged map what comes before the damage."""
        if not self.header.flags & HAS_TOOLS:
            return {}
        size = self.size_bytes - self.tools_offset
        return decode_tools(self._read(self.tools_offset, size, "tool map"), max_ids)

    def trailers(self) -> bytes:
        """All that follows the payload."""
        return self._read(self.tools_offset, self.size_bytes - self.tools_offset, "trailers")

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
        expect(stat.S_ISREG(status.st_mode), self.path.name, "kind of file", oct(status.st_mode), "a regular file")
        # states and the words of tool calls go into prompts: nobody else may write them
        us = os.geteuid()
        expect(status.st_uid in (us, ROOT), self.path.name, "owner", f"user {status.st_uid}", f"user {us}")
        return status.st_size

    def _read(self, offset: int, size: int, what: str) -> bytes:
        left = max(0, self.size_bytes - offset)
        expect(size <= left, self.path.name, what, f"{left} bytes", f"{size}")
        parts, end = [], offset + size
        while offset < end and (part := os.pread(self._descriptor, end - offset, offset)):
            parts.append(part)
            offset += len(part)
        expect(offset == end, self.path.name, what, f"{end - offset} bytes less than it had", f"{size}")
        return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(descriptor: int, data: bytes | memoryview, offset: int) -> int:
    """Write everything at `offset`; return the offset after it. Raises OSError."""
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return offset
