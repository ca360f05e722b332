"""Converted requests as plain JSON values: the form that the recipe's golden vectors have.

Format: tests/golden/recipe/README.md. Fields at their defaults are left out where the vectors leave them out.
"""

from typing import Any

from whitedwarf.conversation.content import BytesImage, Content, DataUrlImage, ImageSource, image_sources, text_parts
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, LatestReminder, Message, SystemMessage, ToolMessage
from whitedwarf.conversation.options import InferenceOptions
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, Regex
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken

_STAGES = {
    ParseStart.CONTENT: None,
    ParseStart.REASONING: "ReasoningStart",
    ParseStart.REASONING_CONTINUED: "ReasoningContinuation",
    ParseStart.CONTENT_CONTINUED: "ContentContinuation",
}


def dumped_conversation(conversation: Conversation) -> dict[str, Any]:
    """Everything that shapes the prompt."""
    effort = conversation.reasoning_effort
    return {
        "messages": [_message(message) for message in conversation.messages],
        "thinking_mode": conversation.is_thinking,
        "tools": [_tool(tool) for tool in conversation.tools],
        "tool_choice": conversation.tool_choice.value,
        "reasoning_effort": None if effort is None else effort.value,
    } | _format(conversation)


def dumped_inference(options: InferenceOptions) -> dict[str, Any]:
    """The sampling options that the official library has."""
    return {
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "logprobs": options.logprobs,
        "top_logprobs": options.top_logprobs,
        "seed": options.seed,
    }


def dumped_parsing(options: ParseOptions) -> dict[str, Any]:
    """How the answer will be read."""
    return {
        "parse_tool_calls": options.parse_tool_calls,
        "starts_in_tool_calls": options.starts_in_tool_calls,
        "parse_json_output": options.parse_json_output,
        "thinking_initial_stage": _STAGES[options.start],
        "stop_sequences": list(options.stop_strings),
    }


def dumped_image(source: ImageSource) -> list[str]:
    """Kind, detail and where the request had it."""
    kind = "bytes" if isinstance(source, BytesImage) else "data_url" if isinstance(source, DataUrlImage) else "url"
    return [kind, source.detail.value, source.path]


def _format(conversation: Conversation) -> dict[str, Any]:
    match conversation.response_format:
        case JsonObject():
            return {"response_format": "json_object"}
        case JsonSchema(schema):
            return {"response_format": "json_schema", "response_schema": schema}
        case Regex(pattern):
            return {"response_format": "regex", "response_regex": pattern}
        case _:
            return {"response_format": "text"}


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    dump: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.is_strict,
    }
    if tool.is_deferred:
        dump["defer_loading"] = True
    return dump


def _text(content: Content) -> str:
    return SpecialToken.IMAGE.value.join(text_parts(content))


def _images(content: Content) -> dict[str, Any]:
    sources = image_sources(content)
    return {"images": [dumped_image(source) for source in sources]} if sources else {}


def _message(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage(content, tools):
            known = {} if tools is None else {"tools": [_tool(tool) for tool in tools]}
            return {"role": "system", "content": _text(content), **known, **_images(content)}
        case ToolMessage(content, call_id):
            return {"role": "tool", "content": _text(content), "tool_call_id": call_id, **_images(content)}
        case AssistantMessage():
            return _assistant(message)
        case LatestReminder(content):
            return {"role": "latest_reminder", "content": content}
        case _:
            return {"role": "user", "content": _text(message.content), **_images(message.content)}


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    dump: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.reasoning is not None:
        dump["reasoning_content"] = message.reasoning
    if message.tool_calls is not None:
        dump["tool_calls"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    if message.is_prefix:
        dump["prefix"] = True
    return dump
