"""A prompt before it becomes token ids: a list of ordinary text and control tokens, which are different types.

Ordinary text can never turn into a control token, whatever it spells; that is the whole point of the two types.
"""

import re
from collections.abc import Iterable, Iterator
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


def coalesce(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Join neighbouring texts and drop empty ones: a stretch between two control tokens is tokenised as one."""
    pending: Text | None = None
    texts: list[str] = []  # what follows `pending`; mostly nothing, and then it is passed on as it is
    for segment in segments:
        if isinstance(segment, Text):
            if not segment.text:
                continue
            if pending is None:
                pending = segment
            else:
                texts.append(segment.text)
            continue
        if pending is not None:
            yield _joined(pending, texts)
            pending = None
        yield segment
    if pending is not None:
        yield _joined(pending, texts)


def _joined(first: Text, others: list[str]) -> Text:
    """One text of all; empties the list."""
    if not others:
        return first
    joined = Text("".join((first.text, *others)))
    others.clear()
    return joined


_RENDERED = re.compile("(" + "|".join(re.escape(token) for token in RENDERED_CHAT_TOKENS) + ")")


def parse_rendered(text: str) -> list[Segment]:
    """Split an already rendered chat at the seven spellings that rendered text may use."""
    pieces = _RENDERED.split(text)  # text, spelling, text, spelling, … text
    return [Control(SpecialToken(piece)) if i % 2 else Text(piece) for i, piece in enumerate(pieces) if piece]
