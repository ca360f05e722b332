"""Bytes from one file into another, by the kernel where it can: no page of them passes through this process.

Promises: the bytes arrive at the target's position, memory stays at one piece, and a source that cannot
give them is a FileFormatError, while trouble with the target stays an OSError. Knows nothing of GGUF.
"""

import errno
import os
from io import FileIO

from whitedwarf.errors import FileFormatError

PIECE_BYTES = 8 << 20
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def copy_piece(source: FileIO, target: FileIO, offset_bytes: int, most_bytes: int) -> int:
    """Copy from `offset_bytes` of `source` to where `target` stands; how many bytes, at least one and at most a piece.

    Raises FileFormatError when `source` cannot be read, OSError when `target` cannot be written.
    """
    most_bytes = min(PIECE_BYTES, most_bytes)
    return _by_kernel(source, target, offset_bytes, most_bytes) or _by_hand(source, target, offset_bytes, most_bytes)


def write_all(target: FileIO, data: memoryview) -> None:
    """Every byte of `data`, in as many calls as it takes."""
    while len(data):
        data = data[target.write(data) or 0 :]


def _by_kernel(source: FileIO, target: FileIO, offset_bytes: int, most: int) -> int:
    """0 where it cannot: other file systems, old kernels, strange files. Reading by hand then tells what is wrong."""
    if not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source.fileno(), target.fileno(), most, offset_bytes)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        return 0


def _by_hand(source: FileIO, target: FileIO, offset_bytes: int, most: int) -> int:
    try:
        source.seek(offset_bytes)
        data = source.read(most)
    except OSError as error:
        raise FileFormatError(
            f"{source.name}: cannot be read at byte {offset_bytes} ({error.strerror or error}); the disk or the file "
            "is damaged"
        ) from error
    if not data:
        raise FileFormatError(
            f"{source.name}: ends at byte {offset_bytes}, where tensor data was expected; it became shorter while it "
            "was read. Let nothing write to it and try again."
        )
    write_all(target, memoryview(data))
    return len(data)
