"""What /help says. Pure."""

from collections.abc import Mapping

_ARGUMENTS: Mapping[str, str] = {
    "/switch": "ID",
    "/history": "[N]",
    "/del": "ID",
    "/strip": "ID",
    "/power": "[N]",
    "/steer": "FILE [FFN [ATTN]]",
    "/theme": "[NAME]",
}


def help_text(words: Mapping[str, str]) -> str:
    """A line for each command: the word with what stands behind it, then what it does."""
    used = {f"{word} {_ARGUMENTS.get(word, '')}".rstrip(): what for word, what in words.items()}
    width = max(map(len, used), default=0) + 2
    return "\n".join(f"{known:<{width}}{what}" for known, what in used.items())
