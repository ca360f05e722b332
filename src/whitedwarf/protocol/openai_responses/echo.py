"""The request's settings as a response object repeats them (spec/recipe.md 13)."""

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.openai_responses.declarations import UnknownTool, listed
from whitedwarf.protocol.openai_responses.request import (
    AllowedTools,
    Choice,
    HostedChoice,
    NamedChoice,
    ResponsesRequest,
    SchemaFormat,
    TextFormat,
)

_SINGLE_DIGITS = 9  # as many as a float of 32 bits can need


def echo_of(request: ResponsesRequest) -> dict[str, Json]:
    """All settings that are repeated, those that were not given at what stands for them."""
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "reasoning": {
            "effort": request.reasoning.effort,
            "summary": request.reasoning.summary or request.reasoning.generate_summary,
        },
        "temperature": shortest_single(1.0 if request.temperature is None else request.temperature),
        "text": {"format": _format(request.text.format), "verbosity": request.text.verbosity},
        "tool_choice": _choice(request.tool_choice),
        "tools": [listed(tool) for tool in request.tools if not isinstance(tool, UnknownTool)],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": shortest_single(1.0 if request.top_p is None else request.top_p),
        "user": request.user,
    }


def shortest_single(number: float) -> float:
    """The float with the fewest digits that is the same in 32 bits: 0.3 for 0.30000001192092896."""
    candidates = (float(f"{number:.{digits}g}") for digits in range(1, _SINGLE_DIGITS + 1))
    return next((shown for shown in candidates if round_to_single(shown) == number), number)


def _format(text_format: TextFormat) -> Json:
    if not isinstance(text_format, SchemaFormat):
        return {"type": text_format.kind}
    return {
        "type": "json_schema",
        "name": text_format.name,
        "schema": text_format.schema,
        "description": text_format.description,
        "strict": text_format.strict,
    }


def _choice(choice: Choice | None) -> Json:
    match choice:
        case None:
            return "auto"
        case NamedChoice():
            return _named(choice)
        case HostedChoice(kind):
            return {"type": kind}
        case AllowedTools(mode, tools):
            return {"type": "allowed_tools", "mode": mode, "tools": [_named(tool) for tool in tools]}
        case _:
            return choice


def _named(choice: NamedChoice) -> Json:
    return {"type": choice.kind, "name": choice.name}
