"""How hard the model is asked to think before it answers (spec/product.md 0.5, spec/recipe.md 6)."""

import json
from enum import StrEnum

from whitedwarf.errors import ConversationError

MAX_THINKING_CONTEXT = 393_216


class ReasoningEffort(StrEnum):
    """How thorough the thoughts should be; only while thinking."""

    LOW = "low"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"

    @classmethod
    def named(cls, name: str) -> "ReasoningEffort":
        """The effort of that name; ConversationError for any other."""
        if name not in list(cls):
            shown = json.dumps(name, ensure_ascii=False)
            raise ConversationError(f'invalid reasoning_effort {shown}; expected "low", "high", "xhigh", or "max"')
        return cls(name)


class Thinking(StrEnum):
    """The three modes of the command line: `none` answers at once; `max` needs a context of at least 393,216 tokens."""

    NONE = "none"
    HIGH = "high"
    MAX = "max"

    def within(self, context_length: int) -> "Thinking":
        """The mode that this context allows: too small a context turns max into high."""
        if self is Thinking.MAX and context_length < MAX_THINKING_CONTEXT:
            return Thinking.HIGH
        return self

    @property
    def is_on(self) -> bool:
        """Whether the model thinks at all."""
        return self is not Thinking.NONE

    @property
    def effort(self) -> ReasoningEffort | None:
        """What the conversation says of it; None when the model does not think."""
        return ReasoningEffort(self.value) if self.is_on else None
