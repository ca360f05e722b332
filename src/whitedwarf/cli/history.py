"""What was typed at earlier prompts, in a file: one JSON string per line, the newest 512, for its owner's eyes only.

A file that cannot be read or written costs the history and nothing else.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from prompt_toolkit.history import History

MAX_ENTRIES = 512
LONGEST_ENTRY = 1 << 16  # characters


class LineHistory(History):
    """prompt_toolkit's history, kept at `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Newest first; older entries than we keep are dropped from the file."""
        lines = self._lines()
        if len(lines) > MAX_ENTRIES:
            lines = lines[-MAX_ENTRIES:]
            with contextlib.suppress(OSError):
                self._rewrite(lines)
        entries = (_entry(line) for line in reversed(lines))
        return [entry for entry in entries if entry is not None]

    def store_string(self, string: str) -> None:
        """Add one entry; what is as long as a file is sent, not remembered."""
        if not string.strip() or len(string) > LONGEST_ENTRY or (self._path.exists() and not self._path.is_file()):
            return  # a pipe would wait for a reader, for ever
        with contextlib.suppress(OSError), _open_private(self._path, os.O_APPEND) as file:
            file.write(json.dumps(string, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def _lines(self) -> list[bytes]:
        try:
            return self._path.read_bytes().splitlines() if self._path.is_file() else []
        except OSError:
            return []

    def _rewrite(self, lines: list[bytes]) -> None:
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with _open_private(fresh, os.O_TRUNC) as file:
            file.writelines(line + b"\n" for line in lines)
        fresh.replace(self._path)


def _open_private(path: Path, flags: int) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    os.fchmod(descriptor, 0o600)  # also one that was there with wider rights
    return os.fdopen(descriptor, "ab")


def _entry(line: bytes) -> str | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry.encode("utf-8", "replace").decode() if isinstance(entry, str) else None
