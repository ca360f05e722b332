"""Conversations as the vectors files dump them, made conversations again: the other direction of recipe_dump.py.

MalformedRequest or ConversationError for what is none. Format: tests/golden/recipe/README.md.
"""

from collections.abc import Mapping
from typing import Any

from whitedwarf.conversation.content import (
    BytesImage,
    Content,
    DataUrlImage,
    IllustratedText,
    ImageDetail,
    ImageSource,
    UrlImage,
)
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import AssistantMessage, LatestReminder, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.response_format import response_format
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice, ToolDefinition
from whitedwarf.prompt.special import SpecialToken, Spellings
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    Reader,
    anything,
    boolean,
    list_of,
    optional,
    record,
    required,
    string,
    tagged,
    variant,
    wrong_type,
)

_OTHER_NAMES = {"thinking_start": SpecialToken.THINK_OPEN, "thinking_end": SpecialToken.THINK_CLOSE}
_TOKENS = {token.name.lower(): token for token in SpecialToken} | _OTHER_NAMES


def read_conversation(dump: Json, spellings: Spellings) -> Conversation:
    """The conversation. Texts show the places of images by the token's spelling, one for each image of the message."""
    conversation: Conversation = _conversation_reader(spellings.of(SpecialToken.IMAGE))(dump)
    return conversation


def read_spellings(changed: Json) -> Spellings:
    """Control tokens that are spelt otherwise, by name."""
    if not isinstance(changed, dict):
        raise wrong_type(changed, "a map of spellings")
    read_name = variant(*_TOKENS)
    return Spellings({_TOKENS[read_name(name)]: string(text) for name, text in changed.items()})


def _conversation_reader(image_token: str) -> Reader:
    return record(
        "Conversation",
        {
            "messages": required(list_of(_message_reader(image_token))),
            "thinking_mode": optional(boolean, default=True),
            "tools": optional(list_of(_read_tool), default=()),
            "tool_choice": optional(string, default="auto"),
            "reasoning_effort": optional(string),
            "response_format": optional(string, default="text"),
            "response_schema": optional(anything),
            "response_regex": optional(string),
        },
        _conversation,
    )


def _conversation(
    messages: Any,
    thinking_mode: bool,
    tools: Any,
    tool_choice: str,
    reasoning_effort: str | None,
    response_format: str,
    response_schema: Json,
    response_regex: str | None,
) -> Conversation:
    effort = None if reasoning_effort is None else ReasoningEffort.named(reasoning_effort)
    form = _form(response_format, response_schema, response_regex)
    return Conversation(tuple(messages), thinking_mode, tuple(tools), ToolChoice.named(tool_choice), effort, form)


def _message_reader(image_token: str) -> Reader:
    def content(text: str, images: list[ImageSource] | None) -> Content:
        return IllustratedText.split_at(image_token, text, tuple(images)) if images else text

    said = {"content": required(string)}
    shown = {**said, "images": optional(list_of(_read_image))}
    tools = {"tools": optional(list_of(_read_tool))}
    kinds: Mapping[str, Reader] = {
        "system": record("SystemMessage", shown | tools, lambda **m: _system(content(m["content"], m["images"]), m)),
        "user": record("UserMessage", shown, lambda **m: UserMessage(content(m["content"], m["images"]))),
        "assistant": record("AssistantMessage", said | _ASSISTANT, _assistant),
        "tool": record(
            "ToolMessage",
            shown | {"tool_call_id": optional(string)},
            lambda **m: ToolMessage(content(m["content"], m["images"]), m["tool_call_id"]),
        ),
        "latest_reminder": record("LatestReminder", said, LatestReminder),
    }
    return tagged("Message", kinds, tag="role")


def _system(content: Content, members: Mapping[str, Any]) -> SystemMessage:
    return SystemMessage(content, None if members["tools"] is None else tuple(members["tools"]))


def _assistant(content: str, reasoning_content: str | None, tool_calls: Any, prefix: bool) -> AssistantMessage:
    calls = None if tool_calls is None else tuple(tool_calls)
    return AssistantMessage(content, reasoning_content, calls, prefix)


def _read_call(value: Json) -> ToolCall:
    return ToolCall(*_three(value, "a call as [id, name, arguments]"))


def _read_image(value: Json) -> ImageSource:
    kind, detail, path = _three(value, "an image as [kind, detail, path]")
    closeness = ImageDetail.named(detail)
    match variant("data_url", "url", "bytes")(kind):
        case "bytes":
            return BytesImage(b"", closeness, path)
        case "url":
            return UrlImage("", closeness, path)
        case _:
            return DataUrlImage("", closeness, path)


def _three(value: Json, expected: str) -> list[str]:
    texts: list[str] = list_of(string)(value)
    if len(texts) != 3:
        raise MalformedRequest(f"found {len(texts)} texts, expected {expected}")
    return texts


_ASSISTANT = {
    "reasoning_content": optional(string),
    "tool_calls": optional(list_of(_read_call)),
    "prefix": optional(boolean, default=False),
}
_form = response_format
_read_tool = record(
    "ToolDefinition",
    {
        "name": required(string),
        "description": optional(string),
        "parameters": optional(anything),
        "strict": optional(boolean),
        "defer_loading": optional(boolean, default=False),
    },
    lambda name, description, parameters, strict, defer_loading: ToolDefinition(
        name, description, parameters, strict, defer_loading
    ),
)
