"""Random image URLs, files and base64 against the official library, which checks them while it converts a request."""

import json
from typing import Any

import deepseek_recipe as recipe
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.conversation.content import DataUrlImage, ImageSource
from whitedwarf.protocol.failures import RequestError
from whitedwarf.protocol.image_parts import base64_source, file_source, image_url_source, web_source

MODEL = "DeepSeek-V4.1-Flash"
PIECES = [
    *("data", ":", "image/", "png", "jpeg", "gif", "webp", "text/plain", ";", "base64", ",", "BASE64", "http", "file:"),
    *(" ", "\n", "\t", "\r", "\x0c", "\x00", "\u00a0", "é", "#", "?", "/", "=", "==", "+", "-", "@"),
    *("A", "AA", "AAAA", "AQ", "B", "9", "%", "%41", "%3D", "%4", "charset=x", ";base64,", "data:image/png;base64,"),
]
pieces = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
urls = st.builds("".join, st.tuples(st.sampled_from(["", "data:image/png;base64,", "data:image/png", "data:"]), pieces))
Outcome = str | tuple[str, str, str, str]


def official(request: Any) -> Outcome:
    try:
        converted = request.convert(recipe.ConversionOptions())
    except recipe.ConversionError as error:
        message: str = json.loads(error.body)["error"]["message"]
        return message
    (source,) = converted.conversation.messages[0].image_sources
    return source.kind, source.detail, source.path, source.data_url or source.url


def official_chat(block: dict[str, Any]) -> Outcome:
    messages = [{"role": "user", "content": [block]}]
    return official(recipe.ChatCompletionRequest({"model": MODEL, "messages": messages}))


def official_messages(source: dict[str, Any]) -> Outcome:
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    return official(recipe.MessagesRequest({"model": MODEL, "max_tokens": 1, "messages": messages}))


def ours(make: Any, *arguments: Any) -> Outcome:
    try:
        source: ImageSource = make(*arguments)
    except RequestError as error:
        return str(error)
    if isinstance(source, DataUrlImage):
        return "data_url", source.detail.value, source.path, source.data_url
    return "url", source.detail.value, source.path, source.url  # type: ignore[union-attr]


@settings(max_examples=300, deadline=None)
@given(urls)
def test_whatever_may_be_an_image_is_judged_as_officially(text: str) -> None:
    chat, messages = ".messages[0]", "messages.0.content[0]"
    assert ours(image_url_source, text, None, chat) == official_chat({"type": "image_url", "image_url": {"url": text}})
    assert ours(file_source, None, text, chat) == official_chat({"type": "file", "file_data": text})
    assert ours(web_source, text, messages) == official_messages({"type": "url", "url": text})
    encoded = {"type": "base64", "media_type": "image/jpg", "data": text}
    assert ours(base64_source, "image/jpg", text, messages) == official_messages(encoded)


@settings(max_examples=200, deadline=None)
@given(st.text("AQg=w4 -\n", max_size=9))
def test_base64_is_judged_as_officially(text: str) -> None:
    url = f"data:image/png;base64,{text}"
    assert ours(image_url_source, url, "low", ".messages[0]") == official_chat(
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    )
    encoded = {"type": "base64", "media_type": "image/png", "data": text}
    assert ours(base64_source, "image/png", text, "messages.0.content[0]") == official_messages(encoded)
