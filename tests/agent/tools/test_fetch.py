"""fetch: what a page reads like, where it may lead, and that it ends."""

import re
import ssl
import stat
import threading
import time
from pathlib import Path

import pytest

from fakes.web_site import CERTIFICATE, web_site
from whitedwarf.agent.tool import Arguments, Effect, Running, ToolError
from whitedwarf.agent.tools.addresses import is_private, resolve
from whitedwarf.agent.tools.fetch import MOST_BYTES, Fetch
from whitedwarf.agent.tools.kept_pages import KeptPages
from whitedwarf.agent.tools.private_folder import PrivateFolder

NEAR = {"near.test": ["10.0.0.1"], "both.test": ["127.0.0.1", "10.0.0.1"]}


def names(host, port):
    """site.test and other.test are the local server, taken for a public one."""
    if host in ("site.test", "other.test"):
        return ["127.0.0.1"]
    if host == "two.test":
        return ["127.0.0.2", "127.0.0.1"]
    if host in NEAR:
        return NEAR[host]
    raise OSError(-2, "Name or service not known")


@pytest.fixture
def site():
    with web_site() as site:
        yield site


@pytest.fixture
def kept():
    folder = PrivateFolder()
    yield KeptPages(folder)
    folder.close()


@pytest.fixture
def tool(kept):
    return Fetch(kept, names, lambda address: address.startswith("10."), time_limit_s=20.0)


def fetched(tool, url, running=None, **values):
    return tool.run(Arguments({"url": url, **values}), running or Running()).text


def test_a_page_is_shown_as_markdown_under_its_address(tool, site):
    site.page("/a?b=c", "<title>T</title><h2>Head</h2><p>Text <a href='d'>link</a></p>")
    url = f"http://site.test:{site.port}/a?b=c"
    assert fetched(tool, url) == (f"{url} (text/html)\n# T\n\n## Head\n\nText [link](http://site.test:{site.port}/d)\n")
    ((_, headers),) = site.asked
    assert headers["Host"] == f"site.test:{site.port}"
    assert "Cookie" not in headers


def test_text_and_raw_are_shown_as_they_come(tool, site):
    site.page("/t", "<b>\n", "text/plain")
    site.page("/j", '{"a": 1}', "application/json")
    site.page("/h", "<p>x</p>")
    base = f"http://site.test:{site.port}"
    assert fetched(tool, base + "/t").endswith("(text/plain)\n<b>\n")
    assert fetched(tool, base + "/j").endswith('\n{"a": 1}')
    assert fetched(tool, base + "/h", raw="true").endswith("\n<p>x</p>")


def test_charsets_are_those_of_the_header_or_the_page(tool, site):
    site.page("/h", "é".encode("latin-1"), "text/plain; charset=ISO-8859-1")
    site.page("/m", "<meta charset='windows-1251'><p>й".encode("cp1251"), "text/html")
    site.page("/o", "é".encode(), "text/plain; charset=base64")
    site.page("/x", b"\xff", "text/plain")
    base = f"http://site.test:{site.port}"
    assert fetched(tool, base + "/h").endswith("\né")
    assert fetched(tool, base + "/m").endswith("\nй\n")
    assert fetched(tool, base + "/o").endswith("\né")
    assert fetched(tool, base + "/x").endswith("\n\ufffd")


def test_a_long_page_is_kept_in_a_private_file_and_its_beginning_shown(tool, site, kept):
    site.page("/l", "\n".join(map(str, range(1, 301))), "text/plain")
    text = fetched(tool, f"http://site.test:{site.port}/l")
    path = re.search(r"\[300 lines, all in (\S+); read it with start_line 100 to go on\]\Z", text)[1]
    assert text.split("\n")[1:101] == [str(number) for number in range(1, 101)]
    assert Path(path).read_text().endswith("\n300")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_redirects_are_followed_some_times(tool, site):
    for number in range(7):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.page("/7", "<p>end")
    base = f"http://site.test:{site.port}"
    assert fetched(tool, base + "/2").startswith(f"{base}/7 (text/html)\nend")
    with pytest.raises(ToolError, match="redirects more than 5 times"):
        fetched(tool, base + "/0")


def test_a_redirect_to_another_site_is_asked_there(tool, site):
    site.redirect("/a", f"http://other.test:{site.port}/b")
    site.page("/b", "<p>b")
    assert fetched(tool, f"http://site.test:{site.port}/a").startswith(f"http://other.test:{site.port}/b ")
    assert site.asked[1][1]["Host"] == f"other.test:{site.port}"


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://site.test/", "javascript:1", "http://u:p@site.test/", "http://a:99999999/"]
)
def test_a_redirect_to_another_scheme_is_refused(tool, site, target):
    site.redirect("/a", target)
    with pytest.raises(ToolError, match="redirects to"):
        fetched(tool, f"http://site.test:{site.port}/a")
    assert len(site.asked) == 1


@pytest.mark.parametrize("host", ["near.test", "both.test"])
def test_a_page_cannot_lead_to_this_computer_or_its_network(tool, site, host):
    site.redirect("/a", f"http://{host}:{site.port}/secret")
    with pytest.raises(ToolError, match=f"leads to {host}, which is this computer or one in its own network"):
        fetched(tool, f"http://site.test:{site.port}/a")
    assert len(site.asked) == 1


def test_a_near_host_is_asked_about_and_only_then_spoken_to(kept, site):
    tool = Fetch(kept)
    site.page("/a", "<p>near")
    url = f"http://127.0.0.1:{site.port}/a"
    with pytest.raises(ToolError, match=r"127\.0\.0\.1, which is this computer"):
        fetched(tool, url)
    assert site.asked == []
    assert tool.risk(Arguments({"url": url})) == "127.0.0.1 is this computer or one in its own network (127.0.0.1)"
    assert fetched(tool, url).endswith("\nnear\n")
    with pytest.raises(ToolError, match="localhost, which is this computer"):
        fetched(tool, f"http://localhost:{site.port}/a")


def test_an_answer_about_a_host_counts_for_that_call_only(kept, site):
    answers = iter([["10.0.0.1"], ["127.0.0.1"], ["10.0.0.1"]])
    tool = Fetch(kept, lambda host, port: next(answers), lambda address: address.startswith("10."))
    address = f"http://site.test:{site.port}/"
    assert tool.risk(Arguments({"url": address}))  # and the user says no
    assert tool.risk(Arguments({"url": address})) == ""
    with pytest.raises(ToolError, match="which is this computer or one in its own"):
        fetched(tool, address)


def test_a_name_that_leads_elsewhere_the_second_time_leads_nowhere(kept, site):
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    tool = Fetch(kept, lambda host, port: next(answers), lambda address: address.startswith("10."))
    assert tool.risk(Arguments({"url": f"http://site.test:{site.port}/"})) == ""
    with pytest.raises(ToolError, match="which is this computer or one in its own"):
        fetched(tool, f"http://site.test:{site.port}/")
    assert site.asked == []


def test_the_next_address_is_tried_where_one_does_not_answer(tool, site):
    site.page("/a", "<p>a")
    assert fetched(tool, f"http://two.test:{site.port}/a").endswith("\na\n")


def test_a_certificate_is_checked_against_the_name_and_not_the_address(kept):
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    with web_site(is_secure=True) as site:
        site.page("/a", "<p>safe")
        tool = Fetch(kept, names, lambda address: False, verify=trusting)
        assert fetched(tool, f"https://site.test:{site.port}/a").endswith("\nsafe\n")
        with pytest.raises(ToolError, match=r"cannot be fetched: .*(certificate|CERTIFICATE)"):
            fetched(tool, f"https://other.test:{site.port}/a")
        with pytest.raises(ToolError, match=r"cannot be fetched: .*(certificate|CERTIFICATE)"):
            fetched(Fetch(kept, names, lambda address: False), f"https://site.test:{site.port}/a")


def test_too_much_is_cut_also_when_it_comes_zipped(tool, site):
    site.page("/l", b"x" * (MOST_BYTES + 10), "text/plain")
    site.zipped("/z", b"y" * 50_000_000)
    for path in ("/l", "/z"):
        text = fetched(tool, f"http://site.test:{site.port}{path}")
        assert f"only the first {MOST_BYTES} bytes were taken" in text
        assert len(text) < 10_000


def test_an_interruption_and_the_limit_end_it(kept, site):
    running = Running()
    threading.Timer(0.3, running.interrupted.set).start()
    tool = Fetch(kept, names, lambda address: False)
    began = time.monotonic()
    with pytest.raises(ToolError, match="cannot be fetched: the user interrupted"):
        fetched(tool, f"http://site.test:{site.port}/silent", running)
    tool = Fetch(kept, names, lambda address: False, time_limit_s=0.5)
    for path in ("/slow", "/silent"):
        with pytest.raises(ToolError, match="cannot be fetched"):
            fetched(tool, f"http://site.test:{site.port}{path}")
    assert time.monotonic() - began < 18


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "only http:// and https://"),
        ("file:///etc/passwd", "only http:// and https:// are fetched; for a file use read"),
        ("/etc/passwd", "only http://"),
        ("ftp://site.test/a", "only http://"),
        ("http://", "only http://"),
        ("http://[::1", "is no address"),
        ("http://a:99999999/", "is no address"),
        ("http://u:p@site.test/", "a name and a password"),
        ("http://unknown.test/", r"unknown\.test is not known \(Name or service not known\)"),
        ("http://two.test:1/", "cannot be fetched"),
    ],
)
def test_what_cannot_be_fetched_says_why(tool, url, words):
    with pytest.raises(ToolError, match=words):
        fetched(tool, url)


def test_odd_answers_are_refused_with_the_reason(tool, site):
    base = f"http://site.test:{site.port}"
    site.page("/pdf", b"%PDF", "application/pdf")
    site.page("/nul", b"a\0b", "text/plain")
    site.page("/error", "<p>out of order", status=503)
    for path, words in [
        ("/pdf", r"is application/pdf, no text; download it with bash"),
        ("/nul", "is no text; download it"),
        ("/error", "answered with HTTP 503: <p>out of order"),
        ("/missing", "answered with HTTP 404: <p>not here"),
    ]:
        with pytest.raises(ToolError, match=words):
            fetched(tool, base + path)
    with pytest.raises(ToolError, match="url is missing"):
        tool.run(Arguments({}), Running())


def test_summary_and_risk_never_raise(tool):
    assert tool.effect is Effect.NETWORK
    assert tool.summary(Arguments({"url": "http://a/\x1b"})) == "Fetching http://a/\\x1b"
    for values in ({}, {"url": ["x"]}, {"url": "http://["}, {"url": "http://unknown.test/"}):
        assert tool.risk(Arguments(values)) == ""
        tool.summary(Arguments(values))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "nonsense",
    ],
)
def test_private_addresses_are_known(address):
    assert is_private(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_public_ones_too(address):
    assert not is_private(address)


def test_names_are_looked_up_and_nonsense_is_an_error():
    assert "127.0.0.1" in resolve("127.0.0.1", 80)
    with pytest.raises(OSError, match=r"."):
        resolve("x" * 300, 80)
