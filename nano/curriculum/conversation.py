"""A training conversation and the two texts it becomes: the prompt (by DeepSeek's own recipe) and the answer.

Every assistant turn is trained on, not only the last; `rendering.py` makes the texts, `nano/rows.py` the token rows.
"""

from dataclasses import dataclass, field
from typing import Literal

from nano.curriculum.texts import Exchange

Effort = Literal["low", "max"]


@dataclass(frozen=True)
class Call:
    """One tool call."""

    name: str
    arguments: dict[str, object]


@dataclass(frozen=True)
class Message:
    """One message; reasoning and calls are an assistant's."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


@dataclass
class Conversation:
    """Messages of which the last is the answer to train on. How it is presented is decided by `presented`."""

    messages: list[Message]
    tools: list[dict[str, object]] = field(default_factory=list)  # name, description, parameters
    is_thinking: bool = False
    effort: Effort | None = None
    is_v41: bool = False
    is_json: bool = False
    answer_schema: dict[str, object] | None = None
    omits_instructions: bool = False  # leave out the fixed paragraph about tools, to spend tokens on the rest

    @property
    def answer(self) -> Message:
        return self.messages[-1]

    def with_system(self, text: str) -> None:
        """Put a system message in front, in place of one that is there."""
        rest = self.messages[1:] if self.messages[0].role == "system" else self.messages
        self.messages = [Message("system", text), *rest]


def said(exchange: Exchange, *, thought: str | None = None) -> list[Message]:
    """A user's question and its answer."""
    reasoning = exchange.thought if thought is None else thought
    return [Message("user", exchange.question), Message("assistant", exchange.answer, reasoning)]
