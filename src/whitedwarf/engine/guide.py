"""Who watches an answer while it is drawn, and steers it: the engine asks after every token and knows no reasons."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Course:
    """How an answer goes on after a token."""

    is_greedy: bool = False  # the next token is the likeliest one, whatever the sampling options say
    is_over: bool = False  # the answer is complete: it ends as if a stop token had come
    is_inside_call: bool = False  # a state saved here would serve no later prompt


FREE = Course()


class Guide(Protocol):
    """Of one answer, called on the engine's thread only: it has to be quick and must not raise."""

    def accept(self, token: int) -> Course:
        """This token was drawn."""
