"""An answer's form that a JSON schema describes: what the prompt says of it, and what is enforced."""

from collections.abc import Iterable
from dataclasses import dataclass

from whitedwarf.conversation.content import text_parts
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import Message
from whitedwarf.conversation.response_format import JsonSchema, ResponseFormat
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.json_schema import first_problem
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.strict_schema import strict_response


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form that is told, and the schema, if there is one, that is enforced instead of the told one."""

    told: ResponseFormat
    enforced_schema: Json = None


def schema_form(schema: Json, policy: Policy, *, is_strict: bool) -> AnswerForm:
    """The form of a schema; RefusedRequest for one that is none. Officially a strict one is enforced in strict form."""
    if policy.is_official and is_strict:
        enforced = strict_response(schema)  # refuses what is no schema at all, before JsonSchema would
        return AnswerForm(JsonSchema(schema), enforced)
    problem = first_problem(schema)
    if problem is not None:
        raise RefusedRequest(f"Invalid json schema: {problem}")
    return AnswerForm(JsonSchema(schema))


def says_json(messages: Iterable[Message]) -> bool:
    """Whether any message has the word, without which the official library answers in no JSON object."""
    return any("json" in text.lower() for message in messages for text in text_parts(message.content))
