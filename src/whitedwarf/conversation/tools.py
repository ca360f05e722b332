"""Tools as the conversation knows them: definitions to offer, and calls that were made."""

import json
from dataclasses import dataclass
from enum import StrEnum

from whitedwarf.conversation.json_value import Json, check_json
from whitedwarf.errors import ConversationError


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool of the client. `parameters` is a JSON Schema, kept as given; ConversationError if it is no JSON value."""

    name: str
    description: str | None = None
    parameters: Json = None
    is_strict: bool | None = None
    is_deferred: bool = False  # not offered at the start; a later system message brings it

    def __post_init__(self) -> None:
        check_json(self.parameters)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that was made; `arguments` should be the text of a JSON object, but may be anything."""

    id: str
    name: str
    arguments: str


class ToolChoice(StrEnum):
    """Whether tools may, must not or must be called."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"

    @classmethod
    def named(cls, name: str) -> "ToolChoice":
        """The choice of that name; ConversationError for any other."""
        if name not in list(cls):
            raise ConversationError(
                f'invalid tool_choice {json.dumps(name, ensure_ascii=False)}; expected "auto", "none", or "required"'
            )
        return cls(name)
