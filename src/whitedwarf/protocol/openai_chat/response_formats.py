"""The form that a Chat request wants its answer in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import JsonObject, PlainText, Regex
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.fields import anything, boolean, optional, record, required, string, tagged
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.schema_form import AnswerForm, says_json, schema_form


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """JSON that a schema allows."""

    schema: Json
    name: str | None = None
    strict: bool | None = None


FormatRequest: TypeAlias = PlainText | JsonObject | SchemaRequest | Regex

_NAME = "ChatCompletionResponseFormat"
_READ_SCHEMA = record(
    "ChatCompletionResponseFormatJsonSchema",
    {"schema": required(anything), "name": optional(string), "strict": optional(boolean)},
    SchemaRequest,
)
read_format = tagged(
    _NAME,
    {
        "json_object": record(_NAME, {}, JsonObject),
        "json_schema": record(
            f"variant {_NAME}::JsonSchema", {"json_schema": required(_READ_SCHEMA)}, lambda json_schema: json_schema
        ),
        "regex": record(f"variant {_NAME}::Regex", {"regex": required(string)}, lambda regex: Regex(regex)),
        "text": record(_NAME, {}, PlainText),
    },
)
"""`response_format`; MalformedRequest with the official words."""


def check_json_word(wanted: FormatRequest | None, messages: Iterable[Message], policy: Policy) -> None:
    """Refuse JSON of no schema where no message speaks of it; the official library's rule, not ours."""
    if not (policy.is_official and isinstance(wanted, JsonObject)):
        return
    if not says_json(messages):
        raise RefusedRequest(
            "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
        )


def answer_form(wanted: FormatRequest | None, policy: Policy) -> AnswerForm:
    """The form to tell and to enforce; RefusedRequest for a schema that is none."""
    match wanted:
        case None:
            return AnswerForm(PlainText())
        case SchemaRequest(schema):
            return schema_form(schema, policy, is_strict=bool(wanted.strict))
        case _:
            return AnswerForm(wanted)
