"""Grounding tokens in the model's own earlier words: the one place where a spelling becomes a token (spec/recipe.md 8).

The model wrote them as tokens, and the protocols carry them as text. Of overlapping spellings, which only re-spelt
tokens can have, the one that ends first wins, as in the official library.
"""

from collections.abc import Iterator

from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken, Spellings


def grounded(text: str, spellings: Spellings) -> Iterator[Segment]:
    """The text, with grounding tokens where it spells them."""
    position = 0
    for start, token in _occurrences(text, spellings):
        yield Text(text[position:start])
        yield Control(token)
        position = start + len(spellings.of(token))
    yield Text(text[position:])


def _occurrences(text: str, spellings: Spellings) -> Iterator[tuple[int, SpecialToken]]:
    spelt = {token: spellings.of(token) for token in GROUNDING_TOKENS}
    if not all(spelt.values()):  # an empty spelling ends first everywhere, and marks nothing
        return
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
