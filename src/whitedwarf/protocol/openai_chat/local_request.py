"""A Chat request's body as clients write it: a superset of the official dialect, read into the same typed request.

Promises: everything that the official library reads, and the names, forms and switches that clients use beside them;
what nothing reads is told. An error names the member it is about. Does not judge ranges: sampling.py does.
"""

from collections.abc import Callable
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader, single, string, unsigned
from whitedwarf.protocol.local_values import Object, expected, located
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.local_messages import local_messages
from whitedwarf.protocol.openai_chat.local_tools import local_tools
from whitedwarf.protocol.openai_chat.reading import Reading
from whitedwarf.protocol.openai_chat.request import FIELDS, ChatRequest
from whitedwarf.protocol.openai_chat.response_formats import FormatRequest, read_format
from whitedwarf.protocol.thinking_switch import THINKING_FIELDS, explicit_thinking, requested_effort

DEFAULT_MODEL = "deepseek-v4"
_OWN_FIELDS = {"max_completion_tokens", "top_k", "min_p", "functions", "function_call"}
_KNOWN_FIELDS = frozenset(FIELDS) | _OWN_FIELDS | THINKING_FIELDS
_AS_OFFICIAL = ("stream", "stream_options", "temperature", "top_p", "stop", "presence_penalty", "frequency_penalty")


def read_local(body: Json) -> Reading:
    """The whole body; MalformedRequest where a part of it has no right reading."""
    if not isinstance(body, dict):
        raise MalformedRequest(f"expected a JSON object, got {shortened(body)}")
    notes = Notes()
    tools = local_tools(body, notes)
    top_logprobs = _number(body, "top_logprobs", 8)
    request = ChatRequest(
        messages=local_messages(body.get("messages"), notes),
        model=_read(body, "model", string) or DEFAULT_MODEL,
        max_tokens=_max_tokens(body),
        n=_number(body, "n", 8),
        seed=_seed(body),
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
        top_k=_top_k(body),
        min_p=_min_p(body),
        custom_tools=tools.custom,
        warnings=notes.sentences,
        unknown_fields=tuple(name for name in body if name not in _KNOWN_FIELDS),
    )


def _read(body: Object, name: str, read: Reader) -> Any:
    """A member, if it is there."""
    value = body.get(name)
    return None if value is None else located(name, read, value)


def _whole(read: Callable[[Any], int]) -> Reader:
    """Some clients have only one kind of number: 100.0 is 100."""
    return lambda value: read(int(value) if isinstance(value, float) and value.is_integer() else value)


def _number(body: Object, name: str, bits: int) -> int | None:
    number: int | None = _read(body, name, _whole(unsigned(bits)))
    return number


def _max_tokens(body: Object) -> int | None:
    """The smaller of both limits, where a client sends the old name and the new one."""
    limits = [_number(body, name, 64) for name in ("max_tokens", "max_completion_tokens")]
    return min((limit for limit in limits if limit is not None), default=None)


def _signed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedRequest(f"expected a whole number, got {shortened(value)}")
    return value


def _seed(body: Object) -> int | None:
    """A negative seed asks for any."""
    seed: int | None = _read(body, "seed", _whole(_signed))
    return None if seed is None or seed < 0 else seed


def _top_k(body: Object) -> int | None:
    """0 and less: all tokens."""
    top_k: int | None = _read(body, "top_k", _whole(_signed))
    return None if top_k is None or top_k <= 0 else top_k


def _min_p(body: Object) -> float | None:
    min_p: float | None = _read(body, "min_p", single)
    if min_p is not None and not 0 <= min_p <= 1:
        raise expected("min_p", "a number from 0 to 1", min_p)
    return min_p


def _response_format(body: Object) -> FormatRequest | None:
    """A format by its bare name, and a schema wherever it stands in the format."""
    value = body.get("response_format")
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, dict) and isinstance(value.get("schema"), dict) and "json_schema" not in value:
        value = {"type": "json_schema", "json_schema": value}
    wanted: FormatRequest | None = None if value is None else located("response_format", read_format, value)
    return wanted
