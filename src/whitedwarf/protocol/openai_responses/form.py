"""The form that an answer is asked to have: `text.format` (spec/recipe.md 4)."""

from collections.abc import Iterable
from dataclasses import dataclass

from whitedwarf.conversation.content import text_parts
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, ResponseFormat
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.json_schema import first_problem
from whitedwarf.protocol.openai_responses.request import SchemaFormat, TextFormat
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.strict_schema import strict_response


@dataclass(frozen=True, slots=True)
class Form:
    """What the prompt says of the form; `strict_schema`, where there is one, is what is enforced instead."""

    shown: ResponseFormat
    strict_schema: Json = None


def form_of(text_format: TextFormat, messages: Iterable[Message], policy: Policy) -> Form:
    """The form that was asked for; RefusedRequest for a bad schema."""
    if isinstance(text_format, SchemaFormat):
        return _schema_form(text_format, policy)
    if text_format.kind == "text":
        return Form(PlainText())
    if policy.is_official and not any(_says_json(message) for message in messages):
        raise RefusedRequest(
            "Response input messages must contain the word 'json' in some form to use 'text.format' "
            "of type 'json_object'."
        )
    return Form(JsonObject())


def _schema_form(text_format: SchemaFormat, policy: Policy) -> Form:
    schema = text_format.schema
    if policy.is_official and text_format.strict:
        enforced = strict_response(schema)
        return Form(JsonSchema(schema), enforced)
    problem = first_problem(schema)
    if problem is not None:
        raise RefusedRequest(f"Invalid json schema: {problem}")
    return Form(JsonSchema(schema))


def _says_json(message: Message) -> bool:
    return any("json" in part.lower() for part in text_parts(message.content))
