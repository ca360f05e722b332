"""Where the hub's access token comes from, and in which words a refusal can name it.

The order is that of the hub's own tools: the argument, HF_TOKEN, the file that `hf auth login` writes. A token is
optional: published models need none. Promises that a token's text appears in no message and no repr.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from whitedwarf.errors import UsageError

TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


@dataclass(frozen=True, slots=True)
class Token:
    """An access token and where it was found."""

    secret: str = field(repr=False)
    source: str  # "the token from HF_TOKEN" reads well


def find_token(
    given: str | None = None, environment: Mapping[str, str] = os.environ, home: Path | None = None
) -> Token | None:
    """The token to use, None without one. UsageError for a text that no header can carry."""
    if given is not None:
        return _checked(given, "--token")
    for variable in TOKEN_VARIABLES:
        if value := environment.get(variable, "").strip():
            return _checked(value, variable)
    path = token_file(environment, home)
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):  # no file, or none for us: most people have none
        return None
    return _checked(text, str(path)) if text else None


def token_file(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Path:
    """Where `hf auth login` leaves the token (HF_TOKEN_PATH, HF_HOME and XDG_CACHE_HOME move it)."""
    if named := environment.get("HF_TOKEN_PATH"):
        return Path(named).expanduser()
    if hub_home := environment.get("HF_HOME"):
        return Path(hub_home).expanduser() / "token"
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache).expanduser() if cache else (home or Path.home()) / ".cache") / "huggingface" / "token"


def _checked(text: str, source: str) -> Token:
    secret = text.strip()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError(
            f"the token from {source} is no access token: expected one word such as hf_abc..., without spaces"
        )
    return Token(secret, source)
