"""Grounding tokens in the model's own earlier words: the one place where a spelling becomes a token (spec/recipe.md 8).

The model wrote them as tokens, and the protocols carry them as text. Of overlapping spellings, which only re-spelt
tokens can have, the one that ends first wins, as in the official library.
"""

from collections.abc import Collection, Iterator

from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken, Spellings


class Grounding:
    """Finds grounding tokens in text."""

    def __init__(self, spellings: Spellings) -> None:
        self._spelt = {token: spellings.of(token) for token in GROUNDING_TOKENS}
        self._beginning = _common_beginning(self._spelt.values())  # no text without it needs a look
        self._marks_nothing = not all(self._spelt.values())  # an empty spelling ends first everywhere

    def segments(self, text: str) -> Iterator[Segment]:
        """The text, with grounding tokens where it spells them."""
        position = 0
        if not self._marks_nothing and self._beginning in text:
            for start, token in self._occurrences(text):
                yield Text(text[position:start])
                yield Control(token)
                position = start + len(self._spelt[token])
        yield Text(text[position:] if position else text)

    def _occurrences(self, text: str) -> Iterator[tuple[int, SpecialToken]]:
        spelt = self._spelt
        found = {token: text.find(spelling) for token, spelling in spelt.items()}
        position = 0
        while True:
            for token, start in found.items():
                if 0 <= start < position:
                    found[token] = text.find(spelt[token], position)
            ahead = [(start + len(spelt[token]), start, token) for token, start in found.items() if start >= 0]
            if not ahead:
                return
            position, start, token = min(ahead, key=lambda occurrence: occurrence[:2])
            yield start, token


def _common_beginning(texts: Collection[str]) -> str:
    first, last = min(texts), max(texts)  # whatever these two share, all between them have as well
    differing = (index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, len(first))]
