"""Requests and blocks written as lists of their members, which the official library reads as serde does."""

from typing import Any

import pytest

from whitedwarf.conversation.content import image_sources
from whitedwarf.protocol.failures import RequestError
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import OFFICIAL


def asked(*items: Any) -> Any:
    return convert({"model": "DeepSeek-V4.1-Flash", "input": list(items)}, OFFICIAL).conversation.messages[0]


def test_an_image_is_its_address_detail_and_file() -> None:
    (image,) = image_sources(asked({"role": "user", "content": [["input_image", "http://x", "low", None]]}).content)
    assert (image.url, image.detail) == ("http://x", "low")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            {"role": "user", "content": [["input_image", "http://x"]]},
            "invalid length 2, expected struct ResponsesInputImage with 3 elements",
        ),
        (
            {"role": "user", "content": [["input_image"]]},
            "invalid length 0, expected struct ResponsesInputImage with 3 elements",
        ),
        ({"type": "reasoning", "content": [["a", "b"]]}, "invalid length 2, expected 1 element in sequence"),
    ],
)
def test_lists_of_another_length_are_refused(item: Any, message: str) -> None:
    with pytest.raises(RequestError, match=f"^{message}$"):
        asked(item)


def test_a_whole_request_is_its_members_in_their_order() -> None:
    body = [
        "DeepSeek-V4-Pro",
        "Hi",
        "Be brief.",
        9,
        ["none"] + [None] * 2,
        True,
        0.5,
        None,
        None,
        None,
        None,
        0.25,
        "me",
    ]
    converted = convert(body, OFFICIAL)
    inference = converted.inference
    assert (inference.max_tokens, inference.temperature, inference.top_p) == (9, 0.5, 0.25)
    assert converted.is_streamed
    assert not converted.conversation.is_thinking
    for count in range(1, len(body)):
        with pytest.raises(RequestError, match=f"^invalid length {count}, expected struct ResponsesRequest with 13 "):
            convert(body[:count], OFFICIAL)
