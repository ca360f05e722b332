"""The form that an answer is asked to have: text, a JSON object, a JSON Schema or a regular expression."""

import json
from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json, check_json
from whitedwarf.errors import ConversationError


@dataclass(frozen=True, slots=True)
class PlainText:
    """Any answer."""


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Some JSON object."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """JSON that this schema allows; `schema` is any JSON value except null."""

    schema: Json

    def __post_init__(self) -> None:
        if self.schema is None:
            raise ConversationError("a response schema is missing; expected a JSON Schema")
        check_json(self.schema)


@dataclass(frozen=True, slots=True)
class Regex:
    """Text that this expression matches; it is not compiled here."""

    pattern: str


ResponseFormat: TypeAlias = PlainText | JsonObject | JsonSchema | Regex


def response_format(name: str = "text", schema: Json = None, regex: str | None = None) -> ResponseFormat:
    """The format that loose options describe; ConversationError, in the official words, where they contradict."""
    if name not in ("text", "json_object"):
        raise ConversationError(
            f'invalid response_format {json.dumps(name, ensure_ascii=False)}; expected "text" or "json_object"'
        )
    if schema is not None and regex is not None:
        raise ConversationError("response_schema and response_regex cannot be combined")
    if name == "json_object":
        if schema is not None or regex is not None:
            raise ConversationError(
                'response_format "json_object" cannot be combined with response_schema or response_regex'
            )
        return JsonObject()
    if schema is not None:
        return JsonSchema(schema)
    return PlainText() if regex is None else Regex(regex)
