"""Texts that a person or another tool wrote, read with a bound: a file without an end is refused, not read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whitedwarf.errors import FileFormatError, UsageError

MOST_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20


def read_text(path: Path) -> str:
    """A file as UTF-8 text of at most 64 MiB, line ends untouched, without a byte order mark.

    UsageError for a file that cannot be read, FileFormatError for one that is no such text.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: expected UTF-8 text, found something else at byte {error.start}") from error


def json_lines(path: Path, expected: str) -> Iterator[tuple[int, Any]]:
    """The number (from 1) and value of each line that is not blank; FileFormatError says what was `expected`."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{path}, line {number}: {expected}; it is not JSON ({error})") from error


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The same, whatever it contains."""
    data = bytearray()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                data += piece
                if len(data) > most_bytes:
                    raise FileFormatError(f"{path} has more than {most_bytes >> 20} MiB; expected a text")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    return bytes(data)
