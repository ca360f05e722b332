"""What the official library says to a Chat request, or makes of its schemas: the oracle of the differential tests."""

import json
from typing import Any

import deepseek_recipe as official

from whitedwarf.conversation.json_value import Json

_REQUEST = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "say it in json"}]}


def body_error(body: bytes | str | dict[str, Any]) -> str | None:
    """Why a body is not even read."""
    try:
        official.ChatCompletionRequest(body)
    except ValueError as error:
        return str(error)
    return None


def request_error(body: dict[str, Any]) -> str | None:
    """Why a request is not read or not converted."""
    try:
        official.ChatCompletionRequest(body).convert(official.ConversionOptions())
    except official.ConversionError as error:
        return _message(error)
    except ValueError as error:
        return str(error)
    return None


def strict_tool(parameters: Json) -> Json:
    """What a strict tool's parameters become, or why they do not."""
    function = {"name": "f", "parameters": parameters, "strict": True}
    converted = _converted(tools=[{"type": "function", "function": function}])
    return converted if isinstance(converted, str) else converted.conversation.tools[0].parameters


def strict_answer(schema: Json) -> str:
    """What a strict response schema becomes, as compact JSON, or why it does not."""
    wanted = {"name": "n", "schema": schema, "strict": True}
    converted = _converted(response_format={"type": "json_schema", "json_schema": wanted})
    return converted if isinstance(converted, str) else converted.inference_options.output_constraint.schema


def schema_problem(schema: Json) -> str | None:
    """What is wrong with a response schema."""
    converted = _converted(response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    return converted.removeprefix("Invalid json schema: ") if isinstance(converted, str) else None


def tools_error(*functions: dict[str, Any]) -> str | None:
    """Why these functions are not accepted as tools."""
    converted = _converted(tools=[{"type": "function", "function": function} for function in functions])
    return converted if isinstance(converted, str) else None


def _converted(**members: Any) -> Any:
    request = official.ChatCompletionRequest({**_REQUEST, **members})
    try:
        return request.convert(official.ConversionOptions())
    except official.ConversionError as error:
        return _message(error)


def _message(error: official.ConversionError) -> str:
    message: str = json.loads(error.body)["error"]["message"]
    return message
