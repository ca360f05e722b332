"""A Responses request's body as clients write it: a superset of the official dialect, read into the same typed request.

Promises: everything that the official library reads, and the names, forms and switches that clients use beside them;
what nothing reads is told. An error names the member it is about. Does not judge ranges: convert.py does.
"""

from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.fields import Reader, boolean, list_of, single, string, unsigned, variant
from whitedwarf.protocol.local_sampling import min_p_of, seed_of, token_limit, top_k_of
from whitedwarf.protocol.local_values import Object, expected, integer_at, located, object_of
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_responses.local_blocks import texts_within
from whitedwarf.protocol.openai_responses.local_choice import local_choice
from whitedwarf.protocol.openai_responses.local_items import LocalInput, local_input
from whitedwarf.protocol.openai_responses.local_tools import local_tools, without_repeats
from whitedwarf.protocol.openai_responses.reading import RequestReading
from whitedwarf.protocol.openai_responses.request import (
    READ_FIELDS,
    Reasoning,
    ResponsesRequest,
    TextFormat,
    TextOptions,
    read_format,
)
from whitedwarf.protocol.policy import ASSUMED_MODEL
from whitedwarf.protocol.thinking_switch import THINKING_FIELDS, explicit_thinking, requested_effort

_STORED = ("previous_response_id", "conversation", "prompt")
_OWN_FIELDS = {"max_tokens", "max_completion_tokens", "top_k", "min_p", "seed", "stop", "parallel_tool_calls", *_STORED}
_KNOWN_FIELDS = READ_FIELDS | THINKING_FIELDS | _OWN_FIELDS
_SUMMARIES = variant("auto", "concise", "detailed")
_VERBOSITIES = ("low", "medium", "high")


def read_local(body: Json, assumed_model: str = ASSUMED_MODEL) -> RequestReading:
    """The whole body; RequestError where a part of it has no right reading."""
    if not isinstance(body, dict):
        raise MalformedRequest(f"expected a JSON object, got {shortened(body)}")
    _check_not_stored(body)
    notes = Notes()
    thinking, effort = explicit_thinking(body), requested_effort(body)
    given = _input(body, notes)
    declared = local_tools(body.get("tools"), "tools", notes)
    request = ResponsesRequest(
        model=_read(body, "model", string) or assumed_model,
        input=given if isinstance(given, str | None) else given.items,
        instructions=_instructions(body),
        max_output_tokens=token_limit(body, "max_output_tokens", "max_tokens", "max_completion_tokens"),
        stream=_read(body, "stream", boolean) or False,
        temperature=_read(body, "temperature", single),
        top_p=_read(body, "top_p", single),
        top_logprobs=_number(body, "top_logprobs", 8),
        reasoning=_reasoning(body, effort),
        text=_text_options(body, notes),
        tools=without_repeats(declared + (given.tools if isinstance(given, LocalInput) else ())),
        tool_choice=local_choice(body.get("tool_choice"), notes),
        user=_user(body),
    )
    return RequestReading(
        request,
        thinking=thinking,
        effort=effort,
        stop=_read(body, "stop", _stop),
        top_k=top_k_of(body),
        min_p=min_p_of(body),
        seed=seed_of(body),
        warnings=notes.sentences,
        unknown_fields=tuple(name for name in body if name not in _KNOWN_FIELDS),
    )


def _check_not_stored(body: Object) -> None:
    """Refuse what refers to something that a server would have to remember."""
    for name in _STORED:
        if body.get(name) is not None:
            raise RefusedRequest(
                f"{name}: this server stores no responses, conversations or prompts. "
                f"Leave {name} out and send the full input, earlier items included, with every request."
            )


def _read(body: Object, name: str, read: Reader) -> Any:
    """A member, if it is there."""
    value = body.get(name)
    return None if value is None else located(name, read, value)


def _input(body: Object, notes: Notes) -> str | LocalInput | None:
    value = body.get("input")
    return value if isinstance(value, str | None) else local_input(value, notes)


def _instructions(body: Object) -> str | None:
    """A text; some clients send it as blocks."""
    value = body.get("instructions")
    if isinstance(value, str | None):
        return value
    if not isinstance(value, list):
        raise expected("instructions", "a string", value)
    return texts_within(value)


def _number(body: Object, name: str, bits: int) -> int | None:
    number = integer_at(body, name)
    return None if number is None else located(name, unsigned(bits), number)


def _stop(value: Json) -> list[str]:
    strings: list[str] = [value] if isinstance(value, str) else list_of(string)(value)
    return strings


def _user(body: Object) -> str | None:
    value = body.get("user")
    return value if isinstance(value, str) else None


def _reasoning(body: Object, effort: str | None) -> Reasoning:
    value = body.get("reasoning")
    reasoning = {} if value is None else object_of(value, "reasoning")
    names = ("summary", "generate_summary")
    summary, older = (_summary(reasoning.get(name), f"reasoning.{name}") for name in names)
    return Reasoning(effort, summary, older)


def _summary(value: Json, path: str) -> str | None:
    """How to tell of the thoughts; None and `none`: not at all."""
    if value is None or value == "none":
        return None
    summary: str = located(path, _SUMMARIES, value)
    return summary


def _text_options(body: Object, notes: Notes) -> TextOptions:
    value = body.get("text")
    options = {} if value is None else object_of(value, "text")
    verbosity = options.get("verbosity")
    if verbosity is not None and verbosity not in _VERBOSITIES:
        notes.warn(f"A verbosity of {shortened(verbosity)} is not known and was ignored.")
        verbosity = None
    return TextOptions(_format(options.get("format")), verbosity)


def _format(value: Json) -> TextFormat:
    """A format by its bare name, and a schema wherever it stands in the format."""
    if value is None:
        return TextOptions().format
    if isinstance(value, str):
        value = {"type": value}
    members = object_of(value, "text.format")
    nested = members.get("json_schema")
    if isinstance(nested, dict):
        members = nested | {"type": "json_schema"}
    if members.get("type") == "json_schema" and members.get("name") is None:
        members = members | {"name": "response"}
    wanted: TextFormat = located("text.format", read_format, members)
    return wanted
