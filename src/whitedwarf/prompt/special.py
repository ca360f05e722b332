"""The control tokens of DeepSeek V4, by meaning and by spelling.

Nothing else in the project writes a control token's spelling: prompts are made of segments, and a control segment holds
one of these values. Spellings: spec/recipe.md 8 (`special_tokens`), spec/product.md 0.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SpecialToken(StrEnum):
    """One control token; its value is the spelling in the vocabulary."""

    BOS = "<｜begin▁of▁sentence｜>"
    EOS = "<｜end▁of▁sentence｜>"
    USER = "<｜User｜>"
    ASSISTANT = "<｜Assistant｜>"
    THINK_OPEN = "<think>"
    THINK_CLOSE = "</think>"
    DSML = "｜DSML｜"
    SYSTEM = "<｜System｜>"
    LATEST_REMINDER = "<｜latest_reminder｜>"
    IMAGE = "<｜image｜>"
    REF = "<｜ref｜>"
    REF_END = "<｜/ref｜>"
    BOX = "<｜box｜>"
    BOX_END = "<｜/box｜>"
    POINT = "<｜point｜>"
    POINT_END = "<｜/point｜>"
    POLYGON = "<｜polygon｜>"
    POLYGON_END = "<｜/polygon｜>"


RENDERED_CHAT_TOKENS = (
    SpecialToken.BOS,
    SpecialToken.EOS,
    SpecialToken.USER,
    SpecialToken.ASSISTANT,
    SpecialToken.THINK_OPEN,
    SpecialToken.THINK_CLOSE,
    SpecialToken.DSML,
)
"""The only spellings that a *rendered* chat text may turn into control tokens (spec/product.md 0.3)."""

GROUNDING_TOKENS = (
    SpecialToken.REF,
    SpecialToken.REF_END,
    SpecialToken.BOX,
    SpecialToken.BOX_END,
    SpecialToken.POINT,
    SpecialToken.POINT_END,
    SpecialToken.POLYGON,
    SpecialToken.POLYGON_END,
)
"""What the model itself writes around places in an image; in its own earlier words these spellings are tokens again."""


@dataclass(frozen=True, slots=True)
class Spellings:
    """How control tokens are spelt in a rendered prompt: as published, but for those in `changed`."""

    changed: Mapping[SpecialToken, str] = field(default_factory=dict)

    def of(self, token: SpecialToken) -> str:
        """The spelling of one token; it may be empty."""
        return self.changed.get(token, token.value)


PUBLISHED = Spellings()
