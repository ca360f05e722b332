"""A prompt before it becomes token ids: a list of ordinary text and control tokens, which are different types.

Ordinary text can never turn into a control token, whatever it spells; that is the whole point of the two types.
"""

import re
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

_RENDERED = re.compile("(" + "|".join(re.escape(token) for token in RENDERED_CHAT_TOKENS) + ")")


def parse_rendered(text: str) -> list[Segment]:
    """Split an already rendered chat at the seven spellings that rendered text may use."""
    pieces = _RENDERED.split(text)  # text, spelling, text, spelling, … text
    return [Control(SpecialToken(piece)) if i % 2 else Text(piece) for i, piece in enumerate(pieces) if piece]
