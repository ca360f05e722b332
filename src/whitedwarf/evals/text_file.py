"""Texts that a person or another tool wrote, read with a bound: a file without an end is refused, not read."""

from pathlib import Path

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
    return bytes(data)
