import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.web.host_check import HostRule

RULE = HostRule(frozenset({"studio.local"}))


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:8000", "LocalHost:8000", "app.localhost", "127.0.0.1", "127.0.0.1:8000",
        "192.168.1.7:80", "[::1]:8000", "[::1]", "studio.local", "STUDIO.local:8000", "localhost.",
    ],
)  # fmt: skip
def test_addresses_and_our_own_names_are_us(host: str) -> None:
    assert RULE.admits_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "", "evil.example", "localhost.evil.example", "evil-localhost", "127.0.0.1.nip.io", "localhost:port",
        "a@localhost", "localhost/x", "[::1", "studio.local.evil.example", ":8000",
    ],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not RULE.admits_host(host)


@given(st.text(), st.text())
def test_no_header_breaks_the_check(host: str, origin: str) -> None:
    RULE.admits_host(host)
    RULE.admits_origin(origin, host)


@pytest.mark.parametrize("origin", ["http://localhost:8000", "https://LOCALHOST:8000"])
def test_our_own_pages_may_ask(origin: str) -> None:
    assert RULE.admits_origin(origin, "localhost:8000")


@pytest.mark.parametrize("origin", ["null", "", "http://localhost:3000", "http://evil.example", "http://[", "file://"])
def test_other_pages_may_not(origin: str) -> None:
    assert not RULE.admits_origin(origin, "localhost:8000")
    assert not RULE.admits_origin(origin, None)
    assert HostRule(frozenset(), allows_all_origins=True).admits_origin(origin, "localhost:8000")


def test_programs_send_no_origin_and_may_ask() -> None:
    assert RULE.admits_origin(None, "localhost:8000")
