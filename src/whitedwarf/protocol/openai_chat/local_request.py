"""A Chat request's body as clients write it: a superset of the official dialect, read into the same typed request.

Promises: everything that the official library reads, and the names, forms and switches that clients use beside them;
what nothing reads is told. An error names the member it is about. Does not judge ranges: sampling.py does.
"""

from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader, string, unsigned
from whitedwarf.protocol.local_sampling import logit_bias_of, min_p_of, num_choices_of, seed_of, token_limit, top_k_of
from whitedwarf.protocol.local_values import Object, integer_at, located
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.local_messages import local_messages
from whitedwarf.protocol.openai_chat.local_tools import local_tools
from whitedwarf.protocol.openai_chat.reading import Reading
from whitedwarf.protocol.openai_chat.request import FIELDS, ChatRequest
from whitedwarf.protocol.openai_chat.response_formats import FormatRequest, read_format
from whitedwarf.protocol.policy import ASSUMED_MODEL
from whitedwarf.protocol.thinking_switch import THINKING_FIELDS, explicit_thinking, requested_effort

_OWN_FIELDS = {"max_completion_tokens", "top_k", "min_p", "logit_bias", "functions", "function_call"}
_KNOWN_FIELDS = frozenset(FIELDS) | _OWN_FIELDS | THINKING_FIELDS
_AS_OFFICIAL = ("stream", "stream_options", "temperature", "top_p", "stop", "presence_penalty", "frequency_penalty")


def read_local(body: Json, assumed_model: str = ASSUMED_MODEL) -> Reading:
    """The whole body; MalformedRequest where a part of it has no right reading."""
    if not isinstance(body, dict):
        raise MalformedRequest(f"expected a JSON object, got {shortened(body)}")
    notes = Notes()
    tools = local_tools(body, notes)
    top_logprobs = _number(body, "top_logprobs", 8)
    request = ChatRequest(
        messages=local_messages(body.get("messages"), notes),
        model=_read(body, "model", string) or assumed_model,
        max_tokens=token_limit(body, "max_tokens", "max_completion_tokens"),
        n=num_choices_of(body),
        seed=seed_of(body),
        logprobs=_read(body, "logprobs", FIELDS["logprobs"].read) or top_logprobs is not None,
        top_logprobs=top_logprobs,
        tools=tools.tools,
        tool_choice=tools.choice,
        response_format=_response_format(body),
        **{name: _read(body, name, FIELDS[name].read) for name in _AS_OFFICIAL},
    )
    return Reading(
        request,
        thinking=explicit_thinking(body),
        effort=requested_effort(body),
        top_k=top_k_of(body),
        min_p=min_p_of(body),
        logit_bias=logit_bias_of(body),
        custom_tools=tools.custom,
        warnings=notes.sentences,
        unknown_fields=tuple(name for name in body if name not in _KNOWN_FIELDS),
    )


def _read(body: Object, name: str, read: Reader) -> Any:
    """A member, if it is there."""
    value = body.get(name)
    return None if value is None else located(name, read, value)


def _number(body: Object, name: str, bits: int) -> int | None:
    number = integer_at(body, name)
    return None if number is None else located(name, unsigned(bits), number)


def _response_format(body: Object) -> FormatRequest | None:
    """A format by its bare name, and a schema wherever it stands in the format."""
    value = body.get("response_format")
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, dict) and isinstance(value.get("schema"), dict) and "json_schema" not in value:
        value = {"type": "json_schema", "json_schema": value}
    wanted: FormatRequest | None = None if value is None else located("response_format", read_format, value)
    return wanted
