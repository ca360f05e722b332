"""How a server is asked: addresses, keys, further members."""

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.web.endpoint.server_options import server_options


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("https://example.com/v1/chat/completions", "https://example.com/v1"),
        ("https://example.com/chat/completions", "https://example.com/v1"),
        ("https://example.com/openai/v3", "https://example.com/openai/v3"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_addresses_are_taken_as_people_have_them(url: str, base: str) -> None:
    assert server_options(url, None, None, None, {}).base == base


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x:0",
        "http://x?key=1",
        "http://[::1",
        "http://a b/v1",
        "http://x/\x1b[2J",
        "http://x/" + "y" * 100_000,
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected an address such as") as raised:
        server_options(url, None, None, None, {})
    assert len(str(raised.value)) < 500


def test_a_key_comes_from_the_environment_and_is_not_shown() -> None:
    options = server_options("http://x", "KEY", None, None, {"KEY": " secret\n"})
    assert options.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(options)
    assert server_options("http://x", None, None, None, {"KEY": "secret"}).headers == {}


@pytest.mark.parametrize("value", [None, "", "  ", "a\nb", "schlüssel", "a\x00b"])
def test_what_is_no_key_is_refused_without_showing_it(value: str | None) -> None:
    with pytest.raises(UsageError, match="--api-key-env KEY") as raised:
        server_options("http://x", "KEY", None, None, {} if value is None else {"KEY": value})
    assert not value or not value.strip() or value not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://me:secret@x", "http://secret@x:99999", "ftp://me:secret@x", "http://x?k=secret"]
)
def test_a_key_in_the_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError, match="--api-key-env") as raised:
        server_options(url, None, None, None, {})
    assert "secret" not in str(raised.value)


def test_a_model_s_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="--model"):
        server_options("http://x", None, "m\udcff", None, {})


def test_further_members_are_an_object() -> None:
    assert server_options("http://x", None, None, '{"a": {"b": 1}, "c": null}', {}).extra == {"a": {"b": 1}, "c": None}
    for wrong in (
        "x",
        "[]",
        "1",
        '{"stream": false}',
        '{"messages": []}',
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a": [NaN]}',
        '{"a": 1e999}',
    ):
        with pytest.raises(UsageError, match="--extra-body"):
            server_options("http://x", None, None, wrong, {})
