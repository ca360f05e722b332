"""How much memory this process held beyond the files it maps: what a model needs besides its weights."""

import re
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_beyond_files_bytes(status: Path = STATUS) -> int | None:
    """The most so far, in bytes; None where the system does not tell (it is Linux's).

    The peak of everything minus the files' pages now. Right where the file has been touched all over since before the
    peak, which a warm-up does; the pages of other files only make it too small by their growth since.
    """
    try:
        text = status.read_text()
    except OSError:
        return None
    found = {name: int(size) * 1024 for name, size in re.findall(r"^(VmHWM|RssFile):\s+(\d+) kB$", text, re.M)}
    if len(found) < 2:
        return None
    return max(found["VmHWM"] - found["RssFile"], 0)
