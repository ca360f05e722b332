"""What the official library makes of a request, in the form of the golden vectors' `expect`.

Compare with `protocol/vectors.py: converted`, which gives our side of it. Prompt and ids are not part of this.
"""

import re
from typing import Any

import deepseek_recipe as recipe

VERSIONS = {"V4": recipe.ModelVersion.DeepseekV4Pro, "V4.1": recipe.ModelVersion.DeepseekV41Flash}
REASONING = {
    "FillEmpty": recipe.ReasoningContentBehavior.FillEmpty,
    "Reject": recipe.ReasoningContentBehavior.Reject,
}
WEB_SEARCH = {"Drop": recipe.WebSearchBehavior.Drop, "Reject": recipe.WebSearchBehavior.Reject}
RequestClass = type[recipe.ChatCompletionRequest] | type[recipe.ResponsesRequest] | type[recipe.MessagesRequest]


def options_of(options: dict[str, Any]) -> recipe.ConversionOptions:
    """The official options of a vector's `options`."""
    named = dict(options)
    aliases = named.pop("model_aliases", {})
    if "reasoning_content_behavior" in named:
        named["reasoning_content_behavior"] = REASONING[named["reasoning_content_behavior"]]
    for name in ("responses_web_search", "messages_web_search"):
        if name in named:
            named[name] = WEB_SEARCH[named[name]]
    official = recipe.ConversionOptions(**named)
    for name, version in aliases.items():
        official = official.with_model_alias(name, VERSIONS[version])
    return official


def official_outcome(request_class: RequestClass, body: Any, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the library makes of a body (text, bytes or dict): the same fields as `vectors.converted`."""
    try:
        request = request_class(body)
    except ValueError as error:
        return {"ok": False, "stage": "parse", "error": "ValueError", "message": str(error)}
    try:
        converted = request.convert(options_of(options or {}))
    except recipe.ConversionError as error:
        shown = {"status": error.status_code, "body": error.body}
        return {"ok": False, "stage": "convert", "error": "ConversionError", **shown}
    return dumped_request(converted)


def official_prompt(
    request_class: RequestClass, body: Any, options: dict[str, Any] | None = None
) -> tuple[str, list[tuple[int, int]]] | None:
    """The prompt of a body and its special ranges; None where the library refuses the body."""
    try:
        request = request_class(body).convert(options_of(options or {}))
    except (ValueError, recipe.ConversionError):
        return None
    is_v4 = request.model_version == recipe.ModelVersion.DeepseekV4Pro
    encoding = recipe.DeepseekV4Encoding() if is_v4 else recipe.DeepseekV41Encoding()
    rendered = encoding.render_conversation(request.conversation)
    return rendered.prompt, rendered.special_ranges


def dumped_request(request: recipe.ConversationRequest) -> dict[str, Any]:
    """A converted request as plain values."""
    version = next(name for name, version in VERSIONS.items() if version == request.model_version)
    inference = request.inference_options
    constraint = inference.output_constraint
    return {
        "ok": True,
        "model_version": version,
        "stream": request.stream,
        "conversation": dumped_conversation(request.conversation),
        "inference": {
            name: getattr(inference, name)
            for name in ("max_tokens", "temperature", "top_p", "logprobs", "top_logprobs", "seed")
        },
        "constraint": None if constraint is None else [constraint.kind, constraint.schema],
        "parsing": dumped_parsing(request.parsing_options),
    }


def dumped_conversation(conversation: recipe.Conversation) -> dict[str, Any]:
    """An official conversation as plain values."""
    dump = {
        "messages": [_message(message) for message in conversation.messages],
        "thinking_mode": conversation.thinking_mode,
        "tools": [_tool(tool) for tool in conversation.tools],
        "tool_choice": conversation.tool_choice,
        "reasoning_effort": conversation.reasoning_effort,
        "response_format": conversation.response_format,
    }
    if conversation.response_format == "json_schema":
        dump["response_schema"] = conversation.response_schema
    if conversation.response_format == "regex":
        dump["response_regex"] = conversation.response_regex
    return dump


def dumped_parsing(options: recipe.ParsingOptions) -> dict[str, Any]:
    """Official parsing options as plain values."""
    stage = options.thinking_initial_stage
    return {
        "parse_tool_calls": options.parse_tool_calls,
        "starts_in_tool_calls": options.starts_in_tool_calls,
        "parse_json_output": options.parse_json_output,
        "thinking_initial_stage": None if stage is None else re.sub(r".*\.", "", repr(stage)),
        "stop_sequences": options.stop_sequences,
    }


def _tool(tool: recipe.ToolDefinition) -> dict[str, Any]:
    dump = {name: getattr(tool, name) for name in ("name", "description", "parameters", "strict")}
    return dump | {"defer_loading": True} if tool.defer_loading else dump


def _message(message: recipe.Message) -> dict[str, Any]:
    dump: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.image_sources:
        dump["images"] = [[source.kind, source.detail, source.path] for source in message.image_sources]
    if message.role == "system" and message.tools is not None:
        dump["tools"] = [_tool(tool) for tool in message.tools]
    if message.role == "tool":
        dump["tool_call_id"] = message.tool_call_id
    if message.role == "assistant":
        dump |= _assistant(message)
    return dump


def _assistant(message: recipe.Message) -> dict[str, Any]:
    dump: dict[str, Any] = {}
    if message.reasoning_content is not None:
        dump["reasoning_content"] = message.reasoning_content
    if message.tool_calls is not None:
        dump["tool_calls"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    if message.prefix:
        dump["prefix"] = True
    return dump
