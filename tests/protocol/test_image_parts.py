import time
from contextlib import suppress

import pytest

from whitedwarf.conversation.content import DataUrlImage, ImageDetail, UrlImage
from whitedwarf.conversation.message import AssistantMessage, UserMessage
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import base64_source, file_source, image_url_source, unseen_images, web_source
from whitedwarf.protocol.policy import OFFICIAL, local

PNG = "data:image/png;base64,"
FORMATS = "valid and has one of the following formats: webp, png, jpeg, and gif."
UNSUPPORTED = f"You have uploaded an unsupported image. Please make sure your image is {FORMATS}"
UNSUPPORTED_FILE = f"You have uploaded an unsupported file. Please make sure your file is {FORMATS}"
FILE_ID = "file_id is not supported. Pass the image as a base64 data url instead."


@pytest.mark.parametrize("url", ["http://x/a.png", "HTTPS://x", "http", "httpfoo", "https://a b"])
def test_what_begins_with_http_is_an_address(url: str) -> None:
    assert image_url_source(url, None, ".messages[1]") == UrlImage(url, ImageDetail.HIGH, ".messages[1]")


@pytest.mark.parametrize(
    "url",
    [
        PNG,
        PNG + "AAAA",
        PNG + "AA",
        PNG + "AA==",
        PNG + "AB==",
        PNG + "AAAA AAAA\n",
        PNG + "AA%3D%3D",
        PNG + "AAAA#@",
        "DATA:IMAGE/Jpeg;base64,AAAA",
        "data:image/jpg;base64,AAAA",
        "data: image/gif ;charset=utf-8; base64,AAAA",
        " \x01da\nta:image/we\tbp;base64,AAAA",
        "data:image/png,base64,@",
        "data:image/png;bASE64,AAAA#base64,",
    ],
)
def test_data_urls_are_read_as_browsers_do_and_kept_as_they_came(url: str) -> None:
    assert image_url_source(url, "low", "input[1]") == DataUrlImage(url, ImageDetail.LOW, "input[1]")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "Unsupported image_url format"),
        ("file:///etc/hosts", "Unsupported image_url format"),
        (" http://x", "Unsupported image_url format"),
        ("data:image/png,abc", "Unsupported image_url format"),
        ("data:image/png;BASE64,AAAA", "Unsupported image_url format"),
        ("data:image/png#;base64,AAAA", "Unsupported image_url format"),
        ("data:image/bmp,xx", "Unsupported image_url format"),
        ("data:image/bmp;base64,@@@", UNSUPPORTED),
        ("data:;base64,AAAA", UNSUPPORTED),
        ("data:image/png\xa0;base64,AAAA", UNSUPPORTED),
        (PNG + "A", "Invalid base64 data"),
        (PNG + "AA=", "Invalid base64 data"),
        (PNG + "AAAA=", "Invalid base64 data"),
        (PNG + "AA==AA", "Invalid base64 data"),
        (PNG + "AA-_", "Invalid base64 data"),
        (PNG + "A%\n41AA", "Invalid base64 data"),
        (PNG + "\ud800AAA", "Invalid base64 data"),
    ],
)
def test_other_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        image_url_source(url, None, ".messages[0]")
    assert str(refused.value) == f".messages[0]: {message}"


@pytest.mark.parametrize(
    ("file_id", "file_data", "message"),
    [
        (None, None, "file must have a file_id or file_data"),
        ("", "", "file cannot have both file_id and file_data"),
        ("", None, FILE_ID),
        (None, "", "file_data is not a valid base64 data url"),
        (None, "http://x", "file_data is not a valid base64 data url"),
        (None, PNG + "@", "file_data is not a valid base64 data url"),
        (None, "data:application/pdf;base64,AAAA", UNSUPPORTED_FILE),
        (None, "data:image/png,AA", "Unsupported image_url format"),
    ],
)
def test_a_file_has_to_be_an_image_in_a_data_url(file_id: str | None, file_data: str | None, message: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        file_source(file_id, file_data, "input[0]")
    assert str(refused.value) == f"input[0]: {message}"


def test_a_file_that_is_an_image_is_taken() -> None:
    assert file_source(None, PNG + "AAAA", "p") == DataUrlImage(PNG + "AAAA", path="p")


@pytest.mark.parametrize(
    ("data", "canonical"), [("", ""), ("AAAA", "AAAA"), ("AA=", "AA=="), ("AAE=====", "AAE="), ("AAAA==", "AAAA")]
)
def test_messages_base64_becomes_a_data_url_with_its_padding_set_right(data: str, canonical: str) -> None:
    expected = DataUrlImage(f"data:image/jpeg;base64,{canonical}", path="messages.0.content[0]")
    assert base64_source("image/jpg", data, "messages.0.content[0]") == expected


@pytest.mark.parametrize("data", ["A", "AA", "AAB=", "AB==", "AAAA\n", "AAA-", "@", "==AA", "é", "\ud800"])
def test_messages_base64_is_base64_to_the_letter(data: str) -> None:
    with pytest.raises(RefusedRequest, match=r"^m\.tool_result\.content\[1\]: base64 decode error$"):
        base64_source("image/png", data, "m.tool_result", error_path="m.tool_result.content[1]")


def test_messages_urls_are_addresses_only() -> None:
    assert web_source("http:x", "p") == UrlImage("http:x", path="p")
    with pytest.raises(RefusedRequest) as refused:
        web_source('data:\n"', "p")
    assert str(refused.value) == 'p: invalid url: "data:\\n\\""'


@pytest.mark.parametrize(
    ("beginning", "repeated"),
    [
        (PNG, "A"),
        (PNG, "%41"),
        (PNG, "%"),
        (PNG, "="),
        ("data:", ";"),
        ("data:;", " \t"),
        ("data:", ",#"),
        ("", "d\na"),
    ],
)
def test_a_url_of_megabytes_takes_no_longer_than_its_length(beginning: str, repeated: str) -> None:
    url = beginning + repeated * (8_000_000 // len(repeated))
    started = time.process_time()
    for is_file in (False, True):
        with suppress(RefusedRequest):
            image_url_source(url, None, "p", is_file=is_file)
    assert time.process_time() - started < 30


def test_who_sends_images_to_a_model_that_sees_none_is_told_so() -> None:
    seen = (UserMessage("What?\n\n[Unsupported Image]"), AssistantMessage("[Unsupported Image]"))
    (told,) = unseen_images(seen, local(ModelVersion.V4))
    assert "sees no images" in told
    assert unseen_images(seen[1:], local(ModelVersion.V4)) == ()
    assert unseen_images(seen, OFFICIAL) == ()
