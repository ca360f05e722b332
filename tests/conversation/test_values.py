"""Conversations refuse what contradicts itself, in the official library's words."""

import math
from collections.abc import Callable
from typing import Any

import deepseek_recipe as recipe
import pytest

from whitedwarf.conversation.content import (
    BytesImage,
    IllustratedText,
    ImageDetail,
    UrlImage,
    image_sources,
    is_empty,
    joined,
    text_parts,
)
from whitedwarf.conversation.json_value import check_json
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex, response_format
from whitedwarf.conversation.thinking import ReasoningEffort, Thinking
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.errors import ConversationError


@pytest.mark.parametrize(
    ("ours", "official"),
    [
        (lambda: response_format("xml"), lambda: recipe.Conversation(response_format="xml")),
        (
            lambda: response_format(schema={}, regex="a"),
            lambda: recipe.Conversation(response_schema={}, response_regex="a"),
        ),
        (
            lambda: response_format("json_object", regex="a"),
            lambda: recipe.Conversation(response_format="json_object", response_regex="a"),
        ),
        (lambda: ToolChoice.named('a"é'), lambda: recipe.Conversation(tool_choice='a"é')),
        (lambda: ReasoningEffort.named("medium"), lambda: recipe.Conversation(reasoning_effort="medium")),
        (lambda: ImageDetail.named("bad"), lambda: recipe.UrlImageSource("u", "bad")),
        (
            lambda: IllustratedText.split_at("", "x", ()),
            lambda: recipe.UserMessage("x", [recipe.UrlImageSource("u")], image_token=""),
        ),
    ],
)
def test_contradictions_are_refused_in_the_official_words(ours: Callable[[], Any], official: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r".") as expected:
        official()
    with pytest.raises(ConversationError) as found:
        ours()
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("value", [{1: 2}, 2**64, -(2**63) - 1, math.nan, {"a": {1}}, b"x", [object()]])
def test_what_is_no_json_is_refused_in_the_official_words(value: Any) -> None:
    with pytest.raises((TypeError, OverflowError, ValueError)) as expected:
        recipe.ToolDefinition("f", parameters=value)
    with pytest.raises(ConversationError) as found:
        ToolDefinition("f", parameters=value)
    assert str(found.value) == str(expected.value)


def nested(value: Any, depth: int) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize("innermost", [1, {}, []])
@pytest.mark.parametrize("depth", [126, 127, 128, 129, 10_000])
def test_nesting_ends_where_the_official_library_ends_it(innermost: Any, depth: int) -> None:
    value = nested(innermost, depth)
    try:
        recipe.ToolDefinition("f", parameters=value)
    except RecursionError as error:
        with pytest.raises(ConversationError, match=str(error)):
            check_json(value)
    else:
        check_json(value)


def test_lone_surrogates_are_no_json_text() -> None:
    for value in ("\ud800", {"\udc00": 1}):
        with pytest.raises(ConversationError, match="lone surrogate"):
            check_json(value)


def test_formats_follow_from_loose_options() -> None:
    assert response_format() == PlainText()
    assert response_format("json_object") == JsonObject()
    assert response_format(schema=True) == JsonSchema(True)
    assert response_format(regex="(") == Regex("(")
    with pytest.raises(ConversationError, match="a response schema is missing"):
        JsonSchema(None)


def test_the_first_spellings_become_places_and_later_ones_stay_text() -> None:
    images = (UrlImage("a"), BytesImage(b"b"))
    assert IllustratedText.split_at("@", "x@y@z@", images).parts == ("x", "y", "z@")
    assert IllustratedText.split_at("@", "none", images) == IllustratedText(("none",), images)
    with pytest.raises(ConversationError, match="3 parts and 1 images"):
        IllustratedText(("a", "b", "c"), images[:1])


def test_contents_are_joined_with_their_images() -> None:
    picture = IllustratedText(("", ""), (UrlImage("a"),))
    both = joined([picture, "text"], "\n\n")
    assert text_parts(both) == ("", "\n\ntext")
    assert image_sources(both) == picture.sources
    assert joined(["a", "b"], "-") == "a-b"
    assert (is_empty(""), is_empty(picture), is_empty(IllustratedText(("",), picture.sources))) == (True, False, True)


def test_the_command_lines_modes_are_efforts() -> None:
    efforts = {mode: mode.effort for mode in Thinking}
    assert efforts == {
        Thinking.NONE: None,
        Thinking.HIGH: ReasoningEffort.HIGH,
        Thinking.MAX: ReasoningEffort.MAX,
    }
