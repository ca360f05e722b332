"""One writer for a file: a lock on an open descriptor, gone with it. Windows and some filesystems have none."""

import sys


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
