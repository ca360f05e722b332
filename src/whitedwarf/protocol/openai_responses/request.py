"""A Responses request as its JSON says it, before anything is made of it (spec/recipe.md 4: fields, types)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    Field,
    anything,
    boolean,
    list_of,
    optional,
    record,
    required,
    single,
    string,
    tagged,
    unsigned,
    variant,
)
from whitedwarf.protocol.openai_responses.declarations import WEB_SEARCHES, Tool, read_tool
from whitedwarf.protocol.openai_responses.items import Item, read_input
from whitedwarf.protocol.resolution import EFFORTS


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """Any answer (`text`), or some JSON object (`json_object`)."""

    kind: str = "text"


@dataclass(frozen=True, slots=True)
class SchemaFormat:
    """JSON that the schema allows."""

    name: str
    schema: Json
    description: str | None = None
    strict: bool | None = None


TextFormat: TypeAlias = PlainFormat | SchemaFormat


@dataclass(frozen=True, slots=True)
class NamedChoice:
    """The one tool that has to be called; only the local policy knows a `namespace` here."""

    kind: str
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class HostedChoice:
    """A web search by the server."""

    kind: str


@dataclass(frozen=True, slots=True)
class AllowedTools:
    """Only these tools, which may (`auto`) or have to (`required`) be called; not known to the official library."""

    mode: str
    tools: tuple[NamedChoice, ...]


Choice: TypeAlias = str | NamedChoice | HostedChoice | AllowedTools


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How to think, and whether to tell of it."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The form of the answer."""

    format: TextFormat = PlainFormat()
    verbosity: str | None = None


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """The fields that are read; everything else in a body is ignored."""

    model: str
    input: str | tuple[Item, ...] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    reasoning: Reasoning = Reasoning()
    text: TextOptions = TextOptions()
    tools: tuple[Tool, ...] = ()
    tool_choice: Choice | None = None
    user: str | None = None


_NAMED = {"name": required(string)}
_TAGGED_CHOICE = tagged(
    "ResponsesToolChoice",
    {
        "function": record("ResponsesNamedChoice", _NAMED, lambda name: NamedChoice("function", name)),
        **{kind: (lambda value: HostedChoice(value["type"])) for kind in WEB_SEARCHES},
        "custom": record("ResponsesNamedChoice", _NAMED, lambda name: NamedChoice("custom", name)),
    },
)


def _choice(value: Json) -> Choice:
    if isinstance(value, str) and value in ("none", "auto", "required"):
        return value
    if isinstance(value, dict) and "type" in value:
        choice: Choice = _TAGGED_CHOICE(value)
        return choice
    raise MalformedRequest("expected one of `none`, `auto`, `required` or a tool choice object")


_SUMMARY = variant("auto", "concise", "detailed")
_FORMAT_ENUM = "ResponsesTextFormat"
read_format = tagged(
    _FORMAT_ENUM,
    {
        "text": record(f"variant {_FORMAT_ENUM}::Text", {}, PlainFormat),
        "json_schema": record(
            f"variant {_FORMAT_ENUM}::JsonSchema",
            {
                "name": required(string),
                "schema": required(anything),
                "description": optional(string),
                "strict": optional(boolean),
            },
            SchemaFormat,
        ),
        "json_object": record(f"variant {_FORMAT_ENUM}::JsonObject", {}, partial(PlainFormat, "json_object")),
    },
)
"""Reads the form of an answer."""


@dataclass(frozen=True, slots=True)
class _NeverNull(Field):
    """A member that may be absent, but not null."""

    def read_member(self, value: Json) -> Any:
        """What the reader makes of the value."""
        return self.read(value)


def _text_options(format: TextFormat, verbosity: str | None) -> TextOptions:
    return TextOptions(format, verbosity)


def _request(**members: Any) -> ResponsesRequest:
    given = {name: value for name, value in members.items() if value is not None}
    return ResponsesRequest(**given | {"tools": tuple(given.get("tools", ()))})


_FIELDS: dict[str, Field] = {
    "model": required(string),
    "input": optional(read_input),
    "instructions": optional(string),
    "max_output_tokens": optional(unsigned(32)),
    "reasoning": optional(
        record(
            "ResponsesReasoningConfig",
            {
                "effort": optional(variant(*EFFORTS)),
                "summary": optional(_SUMMARY),
                "generate_summary": optional(_SUMMARY),
            },
            Reasoning,
        ),
    ),
    "stream": optional(boolean),
    "temperature": optional(single),
    "text": optional(
        record(
            "ResponsesTextConfig",
            {
                "format": _NeverNull(read_format, default=PlainFormat()),
                "verbosity": optional(variant("low", "medium", "high")),
            },
            _text_options,
        ),
    ),
    "tool_choice": optional(_choice),
    "tools": optional(list_of(read_tool)),
    "top_logprobs": optional(unsigned(8)),
    "top_p": optional(single),
    "user": optional(string),
}
READ_FIELDS = frozenset(_FIELDS)
"""The names that the official library reads."""

_READ = record("ResponsesRequest", _FIELDS, _request)


def read_request(body: Json) -> ResponsesRequest:
    """The request that a body is; MalformedRequest, in the official words, for what is none."""
    request: ResponsesRequest = _READ(body)
    return request
