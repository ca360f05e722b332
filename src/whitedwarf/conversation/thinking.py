"""How hard the model is asked to think before it answers (spec/product.md 0.5)."""

from enum import StrEnum

MAX_THINKING_CONTEXT = 393_216


class Thinking(StrEnum):
    """`none` answers at once; `max` needs a context of at least 393,216 tokens."""

    NONE = "none"
    HIGH = "high"
    MAX = "max"

    def within(self, context_length: int) -> "Thinking":
        """The mode that this context allows: too small a context turns max into high."""
        if self is Thinking.MAX and context_length < MAX_THINKING_CONTEXT:
            return Thinking.HIGH
        return self
