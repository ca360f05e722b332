"""API keys: which there are, and whether a request has one of them.

Promises: comparing takes the same time whichever key is offered and however much of it is right; a file of keys that
others may read is refused. Does not know HTTP beyond two header names.
"""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from whitedwarf.errors import UsageError

MAX_FILE_BYTES = 1 << 20
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class ApiKeys:
    """A set of keys, of which only digests are kept."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key.encode()) for key in keys)

    @classmethod
    def from_file(cls, path: Path) -> "ApiKeys":
        """Those of `keys_in`."""
        return cls(keys_in(path))

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether `authorization: Bearer KEY` or `x-api-key: KEY` holds a key of ours."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        offered = [headers.get("x-api-key", ""), bearer.strip() if scheme.lower() == "bearer" else ""]
        # Every key is compared with every other, so that the time says nothing about which one was right.
        matches = [hmac.compare_digest(_digest(_sent(key)), ours) for key in offered for ours in self._digests]
        return any(matches)


def keys_in(path: Path) -> list[str]:
    """One key a line; blank lines and those that begin with # are skipped. UsageError where it cannot be used."""
    try:
        with path.open("rb") as file:  # the file that is checked is the one that is read
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(MAX_FILE_BYTES + 1).decode("utf-8-sig")  # Windows' editors begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--api-key-file {path}: expected a readable text file; {why}") from error
    if mode & _OTHERS:
        raise UsageError(f"--api-key-file {path}: others may use it (mode {mode:04o}); run: chmod 600 {path}")
    if len(text.encode()) > MAX_FILE_BYTES:
        raise UsageError(f"--api-key-file {path}: expected at most {MAX_FILE_BYTES} bytes of keys, got more")
    # At newlines alone: other characters that end lines somewhere would leave parts of a key as keys.
    keys = [line.strip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    if not all(map(str.isprintable, keys)):
        raise UsageError(f"--api-key-file {path}: a key holds a control character, which no header can carry")
    if not keys:
        raise UsageError(f"--api-key-file {path}: expected at least one key, one a line; found none")
    return keys


def _sent(header: str) -> bytes:
    """The bytes that came: ASGI reads headers as Latin-1, while a key in UTF-8 was meant."""
    return header.encode("latin-1", "replace")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
