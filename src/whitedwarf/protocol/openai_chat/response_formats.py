"""The form that a Chat request wants its answer in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import text_parts
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex, ResponseFormat
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.fields import anything, boolean, optional, record, required, string, tagged, word_for
from whitedwarf.protocol.json_schema import first_problem
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.strict_schema import strict_response


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


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form that is told, and the schema that is enforced instead of the told one."""

    told: ResponseFormat
    enforced_schema: Json = None


def check_json_word(wanted: FormatRequest | None, messages: Iterable[Message], policy: Policy) -> None:
    """Refuse JSON of no schema where no message speaks of it; the official library's rule, not ours."""
    if not (policy.is_official and isinstance(wanted, JsonObject)):
        return
    if not any("json" in text.lower() for message in messages for text in text_parts(message.content)):
        raise RefusedRequest(
            "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
        )


def answer_form(wanted: FormatRequest | None, policy: Policy) -> AnswerForm:
    """The form to tell and to enforce; RefusedRequest for a schema that is none."""
    match wanted:
        case None:
            return AnswerForm(PlainText())
        case SchemaRequest() if policy.is_official:
            return _official_schema(wanted)
        case SchemaRequest(schema):
            return AnswerForm(JsonSchema(_checked_schema(schema)))
        case _:
            return AnswerForm(wanted)


def _official_schema(wanted: SchemaRequest) -> AnswerForm:
    if wanted.strict:
        enforced = strict_response(wanted.schema)
        return AnswerForm(JsonSchema(wanted.schema), enforced)
    problem = first_problem(wanted.schema)
    if problem is not None:
        raise RefusedRequest(f"Invalid json schema: {problem}")
    return AnswerForm(JsonSchema(wanted.schema))


def _checked_schema(schema: Json) -> Json:
    if not isinstance(schema, dict | bool):
        raise RefusedRequest(f"Invalid json schema: expected an object, got {word_for(schema)}")
    return schema
