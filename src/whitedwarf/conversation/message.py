"""One message of a conversation: plain values, no tokens and no dialect of any protocol."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """What was said. Earlier reasoning is not part of it: DeepSeek V4 does not see it again in a plain chat."""

    role: Role
    content: str
