"""A prompt before it becomes token ids: a list of ordinary text and control tokens, which are different types.

Ordinary text can never turn into a control token, whatever it spells; that is the whole point of the two types.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.prompt.special import RENDERED_CHAT_TOKENS, SpecialToken


@dataclass(frozen=True, slots=True)
class Text:
    """Ordinary text: whatever it spells, it stays text."""

    text: str


@dataclass(frozen=True, slots=True)
class Control:
    """One control token."""

    token: SpecialToken


Segment = Text | Control


def parse_rendered(text: str, tokens: Sequence[SpecialToken] = RENDERED_CHAT_TOKENS) -> list[Segment]:
    """Split an already rendered chat at the spellings of control tokens; by default the seven that it may use."""
    pieces = _spellings(tuple(tokens)).split(text)  # text, spelling, text, spelling, … text
    return [Control(SpecialToken(piece)) if i % 2 else Text(piece) for i, piece in enumerate(pieces) if piece]


@functools.cache
def _spellings(tokens: tuple[SpecialToken, ...]) -> re.Pattern[str]:
    return re.compile("(" + "|".join(map(re.escape, tokens)) + ")")
