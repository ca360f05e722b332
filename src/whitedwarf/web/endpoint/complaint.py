"""What a server says with an error, in one short line that no terminal obeys. Pure."""

import json

_SHOWN = 300  # characters
_READ = 64 << 10  # bytes


def complaint(data: bytes) -> str:
    """What an error's body says: the `message` of OpenAI's shape, or the beginning of any other text but HTML."""
    text = data[:_READ].decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else _short(text)
    return told_error(value)


def told_error(body: object) -> str:
    """The same of a body that has been read."""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return _short(str(message or error))


def _short(text: str) -> str:
    plain = "".join(character if character.isprintable() else " " for character in text[: 10 * _SHOWN])
    return " ".join(plain.split())[:_SHOWN]
