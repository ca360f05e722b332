"""The key that a child asks for, read from how it is started: what we ask it ourselves needs it, too.

Clients bring their own; theirs is forwarded as it came.
"""

from pathlib import Path

from whitedwarf.supervisor import arguments as given
from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.upstream import Headers

_KEY = ("--api-key",)
_KEY_FILE = ("--api-key-file",)


def key_headers(model: ManagedModel) -> Headers:
    """For requests of our own; () where no key is asked for, or it cannot be found."""
    key = _key(model)
    return () if not key else ((b"Authorization", b"Bearer " + key.encode("utf-8", "surrogateescape")),)


def _key(model: ManagedModel) -> str | None:
    given_key = given.option_of(model.arguments, _KEY) or dict(model.environment).get("LLAMA_API_KEY")
    if given_key is not None:
        return given_key.split(",")[0]
    file = given.option_of(model.arguments, _KEY_FILE)
    return None if file is None else _first_key(Path(file))


def _first_key(path: Path) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), None)
