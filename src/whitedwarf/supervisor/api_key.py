"""The key that a child asks for, read from how it is started: what we ask it ourselves needs it, too.

Clients bring their own; theirs is forwarded as it came.
"""

from collections.abc import Sequence
from pathlib import Path

from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.upstream import Headers


def key_headers(model: ManagedModel) -> Headers:
    """For requests of our own; () where no key is asked for, or it cannot be found."""
    key = _key(model)
    return () if key is None else ((b"Authorization", b"Bearer " + key.encode()),)


def _key(model: ManagedModel) -> str | None:
    given = _value(model.arguments, "--api-key")
    if given is None:
        given = dict(model.environment).get("LLAMA_API_KEY")
    if given is not None:
        return given.split(",")[0]
    file = _value(model.arguments, "--api-key-file")
    return None if file is None else _first_line(Path(file))


def _value(arguments: Sequence[str], flag: str) -> str | None:
    """The last one given counts."""
    found = None
    for index, word in enumerate(arguments):
        if word == flag and index + 1 < len(arguments):
            found = arguments[index + 1]
        elif word.startswith(flag + "="):
            found = word[len(flag) + 1 :]
    return found


def _first_line(path: Path) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), None)
