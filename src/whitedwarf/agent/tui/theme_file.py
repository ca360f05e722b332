"""The chosen theme in a file of one line. A file that cannot be read or written costs the memory and nothing else."""

import contextlib
import os
from pathlib import Path

LONGEST_NAME = 100


class ThemeFile:
    """At `path`; its folder is made when it is needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> str:
        """The name, or nothing."""
        with contextlib.suppress(OSError, ValueError):
            if self._path.is_file():
                with self._path.open(encoding="utf-8") as file:
                    return file.read(LONGEST_NAME).strip()
        return ""

    def store(self, name: str) -> None:
        """Written beside and renamed, for its owner's eyes."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text(f"{name}\n", encoding="utf-8")
            fresh.chmod(0o600)
            fresh.replace(self._path)
