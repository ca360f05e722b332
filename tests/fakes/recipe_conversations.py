"""Conversations three ways: as the vectors dump them, as ours, and as the official library's."""

from typing import Any

import deepseek_recipe as recipe

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
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.response_format import response_format
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice, ToolDefinition
from whitedwarf.prompt.special import SpecialToken, Spellings

IMAGE = SpecialToken.IMAGE.value
RENAMED = {"thinking_start": SpecialToken.THINK_OPEN, "thinking_end": SpecialToken.THINK_CLOSE}


def conversation_from_dump(dump: dict[str, Any], image_token: str = IMAGE) -> Conversation:
    effort = dump["reasoning_effort"]
    return Conversation(
        tuple(_message(message, image_token) for message in dump["messages"]),
        is_thinking=dump["thinking_mode"],
        tools=_tools(dump["tools"]),
        tool_choice=ToolChoice.named(dump["tool_choice"]),
        reasoning_effort=None if effort is None else ReasoningEffort.named(effort),
        response_format=response_format(**_format_options(dump)),
    )


def oracle_from_dump(dump: dict[str, Any], image_token: str = IMAGE) -> recipe.Conversation:
    options = _format_options(dump)
    return recipe.Conversation(
        [_oracle_message(message, image_token) for message in dump["messages"]],
        thinking_mode=dump["thinking_mode"],
        tools=_oracle_tools(dump["tools"]),
        tool_choice=dump["tool_choice"],
        reasoning_effort=dump["reasoning_effort"],
        response_format=options["name"],
        response_schema=options["schema"],
        response_regex=options["regex"],
    )


def spellings_from_dump(changed: dict[str, str]) -> Spellings:
    return Spellings({RENAMED.get(name) or SpecialToken[name.upper()]: text for name, text in changed.items()})


def dumped_image(source: ImageSource) -> list[str]:
    kind = {DataUrlImage: "data_url", UrlImage: "url", BytesImage: "bytes"}[type(source)]
    return [kind, source.detail.value, source.path]


def _format_options(dump: dict[str, Any]) -> dict[str, Any]:
    name = dump.get("response_format", "text")
    return {
        "name": name if name == "json_object" else "text",
        "schema": dump.get("response_schema"),
        "regex": dump.get("response_regex"),
    }


def _tools(dumps: list[dict[str, Any]] | None) -> tuple[ToolDefinition, ...]:
    return tuple(
        ToolDefinition(t["name"], t["description"], t["parameters"], t["strict"], t.get("defer_loading", False))
        for t in dumps or ()
    )


def _oracle_tools(dumps: list[dict[str, Any]] | None) -> list[recipe.ToolDefinition]:
    return [
        recipe.ToolDefinition(t["name"], t["description"], t["parameters"], t["strict"], t.get("defer_loading", False))
        for t in dumps or ()
    ]


def _content(dump: dict[str, Any], image_token: str) -> Content:
    images = dump.get("images")
    if not images:
        return str(dump["content"])
    return IllustratedText.split_at(image_token, dump["content"], tuple(map(_image, images)))


def _image(dump: list[str]) -> ImageSource:
    kind, detail, path = dump
    closeness = ImageDetail.named(detail)
    if kind == "bytes":
        return BytesImage(b"", closeness, path)
    return (UrlImage if kind == "url" else DataUrlImage)("", closeness, path)


def _oracle_image(dump: list[str]) -> recipe.ImageSource:
    kind, detail, path = dump
    if kind == "bytes":
        return recipe.BytesImageSource(b"", detail, path=path)
    return (recipe.UrlImageSource if kind == "url" else recipe.DataUrlImageSource)("", detail, path=path)


def _message(dump: dict[str, Any], image_token: str) -> Message:
    match dump["role"]:
        case "system":
            tools = None if dump.get("tools") is None else _tools(dump["tools"])
            return SystemMessage(_content(dump, image_token), tools)
        case "user":
            return UserMessage(_content(dump, image_token))
        case "tool":
            return ToolMessage(_content(dump, image_token), dump.get("tool_call_id"))
        case "latest_reminder":
            return LatestReminder(dump["content"])
        case _:
            calls = None if dump.get("tool_calls") is None else tuple(ToolCall(*call) for call in dump["tool_calls"])
            prefix = dump.get("prefix", False)
            return AssistantMessage(dump["content"], dump.get("reasoning_content"), calls, prefix)


def _oracle_message(dump: dict[str, Any], image_token: str) -> recipe.Message:
    images = list(map(_oracle_image, dump.get("images", [])))
    content = dump["content"]
    match dump["role"]:
        case "system":
            tools = None if dump.get("tools") is None else _oracle_tools(dump["tools"])
            return recipe.SystemMessage(content, images, tools, image_token=image_token)
        case "user":
            return recipe.UserMessage(content, images, image_token=image_token)
        case "tool":
            return recipe.ToolMessage(content, dump.get("tool_call_id"), images, image_token=image_token)
        case "latest_reminder":
            return recipe.LatestReminderMessage(content)
        case _:
            calls = dump.get("tool_calls")
            oracle_calls = None if calls is None else [recipe.ToolCall(*call) for call in calls]
            reasoning, prefix = dump.get("reasoning_content"), dump.get("prefix", False)
            return recipe.AssistantMessage(content, reasoning, oracle_calls, prefix)
