"""What of a request was left out or changed, in sentences for whoever reads logs.

Promises: each sentence once, and not too many of them, however long a hostile request is.
"""

_MOST_SENTENCES = 32
_MOST_CHARACTERS = 64


class Notes:
    """Collects warnings while a request is read."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}

    def add(self, sentence: str) -> None:
        """Something was left out."""
        if len(self._sentences) < _MOST_SENTENCES:
            self._sentences[sentence] = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(self._sentences)


def shown(value: object) -> str:
    """A value of the client's, short enough for a message."""
    text = repr(value) if isinstance(value, str | bool | int | float) else type(value).__name__
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
