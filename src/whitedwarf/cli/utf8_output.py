"""Standard output for programs and for pasting: UTF-8 in every locale, where people would rather read "?"."""

import io
import sys


def speak_utf8() -> None:
    """From now on. Names of files that are no text come out as the bytes they are."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
