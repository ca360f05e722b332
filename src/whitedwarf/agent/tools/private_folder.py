"""A folder for what tools keep during a session: made when something is kept, the user's alone, gone at the end.

A command may clear all of /tmp: where the folder is gone, there is another one.
"""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


class PrivateFolder:
    """`tell` hears where it is once it is made."""

    def __init__(self, tell: Callable[[Path], None] = lambda folder: None) -> None:
        self._tell = tell
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder; OSError where none can be made."""
        if self._path is None or self._path.is_symlink() or not self._path.is_dir():
            self._path = Path(tempfile.mkdtemp(prefix="whitedwarf-agent-"))
            atexit.register(self.close)
            self._tell(self._path)
        return self._path

    def close(self) -> None:
        """Remove it with all that is in it; more than once is well."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            atexit.unregister(self.close)
            self._path = None
