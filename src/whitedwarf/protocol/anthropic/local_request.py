"""The body of a Messages request as the local policy reads it.

Promises: the value of request.py. Fields that nothing here acts on are no errors; values that cannot be understood are,
and the message names what is allowed.
"""

from collections.abc import Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.protocol.anthropic.blocks import TextBlock
from whitedwarf.protocol.anthropic.local_blocks import content_blocks
from whitedwarf.protocol.anthropic.local_tools import declarations, tool_wish
from whitedwarf.protocol.anthropic.request import MessagesRequest, RequestMessage
from whitedwarf.protocol.billing_header import is_billing_block
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.local_sampling import min_p_of, top_k_of
from whitedwarf.protocol.local_values import (
    Object,
    expected,
    flag_at,
    integer_at,
    list_at,
    number_at,
    object_of,
    text_at,
)
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.policy import ASSUMED_MODEL
from whitedwarf.protocol.thinking_switch import THINKING_FIELDS, explicit_thinking, requested_effort

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_SHAPING = (
    *("model", "messages", "max_tokens", "system", "stream", "temperature", "top_p", "top_k", "min_p"),
    *("stop_sequences", "tools", "tool_choice", "output_config", "output_format"),
)
_WITHOUT_EFFECT = ("metadata", "context_management", "cache_control", "betas", "anthropic_beta", "anthropic_version")
_READ = frozenset((*_SHAPING, *_WITHOUT_EFFECT)) | THINKING_FIELDS


def unread_fields(body: Json) -> tuple[str, ...]:
    """Names in the body's top level that nothing reads."""
    return tuple(name for name in body if name not in _READ) if isinstance(body, dict) else ()


def read_local(body: Json, notes: Notes, assumed_model: str = ASSUMED_MODEL) -> MessagesRequest:
    """The request; MalformedRequest where it is none."""
    members = object_of(body, "body")
    model = text_at(members, "model")
    messages = tuple(
        _message(value, f"messages[{index}]", notes) for index, value in enumerate(list_at(members, "messages"))
    )
    return MessagesRequest(
        model=assumed_model if model is None else model,
        messages=messages,
        max_tokens=integer_at(members, "max_tokens"),
        system=_system(members.get("system"), notes),
        is_streamed=flag_at(members, "stream"),
        temperature=_single_at(members, "temperature"),
        top_p=_single_at(members, "top_p"),
        top_k=top_k_of(members),
        min_p=min_p_of(members),
        stop_sequences=_stop_sequences(members),
        thinking=explicit_thinking(members),
        effort=requested_effort(members),
        tools=declarations(list_at(members, "tools"), notes),
        wish=tool_wish(members.get("tool_choice")),
        response_schema=_response_schema(members),
    )


def _message(value: Json, path: str, notes: Notes) -> RequestMessage:
    members = object_of(value, path)
    role = members.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise expected(f"{path}.role", f"one of {', '.join(_ROLES)}", role)
    blocks = content_blocks(members.get("content"), f"{path}.content", notes)
    if _ROLES[role] == "system":
        blocks = tuple(block for block in blocks if not (isinstance(block, TextBlock) and is_billing_block(block.text)))
    return RequestMessage(_ROLES[role], blocks)


def _system(value: Json, notes: Notes) -> tuple[str, ...] | None:
    """The system prompt's texts without what changes from request to request; None where nothing is left."""
    if isinstance(value, str):
        first, _, rest = value.partition("\n")
        value = rest if is_billing_block(first) else value
        return (value,) if value else None
    texts = tuple(text for text in _system_texts(value, notes) if not is_billing_block(text))
    return texts or None


def _system_texts(value: Json, notes: Notes) -> Iterator[str]:
    for block in content_blocks(value, "system", notes):
        if isinstance(block, TextBlock):
            yield block.text
        else:
            notes.warn("Blocks of the system prompt that are no text were left out.")


def _single_at(members: Object, name: str) -> float | None:
    number = number_at(members, name)
    return None if number is None else round_to_single(number)


def _stop_sequences(members: Object) -> tuple[str, ...]:
    value = members.get("stop_sequences")
    if isinstance(value, str):
        return (value,)
    texts = list_at(members, "stop_sequences")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise expected(f"stop_sequences[{index}]", "a string", text)
    return tuple(text for text in texts if isinstance(text, str))


def _response_schema(members: Object) -> JsonSchema | None:
    """The schema that the answer is to follow, in either of its places."""
    config = members.get("output_config")
    for value in (config.get("format") if isinstance(config, dict) else None, members.get("output_format")):
        if value is None:
            continue
        form = object_of(value, "output_config.format")
        if form.get("type") != "json_schema":
            raise expected("output_config.format.type", "json_schema", form.get("type"))
        return JsonSchema(object_of(form.get("schema"), "output_config.format.schema"))
    return None
