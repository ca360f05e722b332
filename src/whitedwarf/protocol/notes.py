"""What a request said that is not acted on, collected while it is read: a sentence each, and not the same one twice."""

from dataclasses import dataclass, field

MAX_NOTES = 20
_LONGEST_VALUE = 64


@dataclass(slots=True)
class Notes:
    """Warnings for the client or the log; never more than a few, whatever the request holds."""

    _sentences: dict[str, None] = field(default_factory=dict)

    def warn(self, sentence: str) -> None:
        """Keep one more sentence."""
        if len(self._sentences) < MAX_NOTES:
            self._sentences.setdefault(sentence)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(self._sentences)


def shortened(value: object) -> str:
    """A value of the client's for use in a sentence, in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
