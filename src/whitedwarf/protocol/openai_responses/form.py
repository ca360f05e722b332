"""The form that an answer is asked to have: `text.format` (spec/recipe.md 4)."""

from collections.abc import Iterable

from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import JsonObject, PlainText
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.request import SchemaFormat, TextFormat
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.schema_form import AnswerForm, says_json, schema_form


def form_of(text_format: TextFormat, messages: Iterable[Message], policy: Policy) -> AnswerForm:
    """The form that was asked for; RefusedRequest for a bad schema."""
    if isinstance(text_format, SchemaFormat):
        return schema_form(text_format.schema, policy, is_strict=bool(text_format.strict))
    if text_format.kind == "text":
        return AnswerForm(PlainText())
    if policy.is_official and not says_json(messages):
        raise RefusedRequest(
            "Response input messages must contain the word 'json' in some form to use 'text.format' "
            "of type 'json_object'."
        )
    return AnswerForm(JsonObject())
