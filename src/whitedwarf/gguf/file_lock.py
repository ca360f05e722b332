"""One writer for a file, and names that last: locks on open descriptors (Windows and some filesystems have none)."""

import contextlib
import os
import sys
from pathlib import Path


def try_lock(descriptor: int) -> bool:
    """False where another process has the file; until the descriptor is closed nobody else gets it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a filesystem without locks
        return True
    return True


def wait_for_lock(descriptor: int) -> None:
    """After `try_lock` was refused: returns when the other process has closed the file."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_still_there(path: Path, descriptor: int) -> bool:
    """False if the file was renamed or taken away between opening and locking it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Make renames last through a power cut; Windows and some network disks cannot open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
