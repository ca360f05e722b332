"""visit_page and google_search with a real browser: what they tell, where they may go, and that nothing is left."""

import threading
import time
from pathlib import Path

import psutil
import pytest

from fakes.web_site import web_site
from whitedwarf.agent.approval import NobodyToAsk, Policy, Rule
from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools.browser import Browser, find_browser
from whitedwarf.agent.tools.kept_pages import KeptPages
from whitedwarf.agent.tools.page_text import page_links
from whitedwarf.agent.tools.private_folder import PrivateFolder
from whitedwarf.agent.tools.visit_page import GoogleSearch, VisitPage

needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no Chrome or Chromium is here"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    assert program is not None
    browser = Browser(program, tmp_path_factory.mktemp("browser") / "profile")
    yield browser
    browser.close()


@pytest.fixture
def site():
    with web_site() as site:
        yield site


@pytest.fixture
def tool(browser):
    folder = PrivateFolder()
    yield VisitPage(browser, KeptPages(folder))
    folder.close()


def visited(tool, url, running=None):
    arguments = Arguments({"url": url})
    tool.risk(arguments)  # as the policy asks before each call
    return tool.run(arguments, running or Running()).text


class TestWithABrowser:
    pytestmark = needs_browser

    def test_a_page_is_told_as_its_scripts_leave_it(self, tool, site):
        site.page(
            "/a",
            "<title>T</title><p id=p>before</p><script>setTimeout(() => { document.getElementById('p').innerHTML ="
            " 'after <a href=/b>link</a>' }, 100)</script>",
        )
        url = f"http://127.0.0.1:{site.port}/a"
        assert visited(tool, url) == f"{url}\n# T\n\nafter [link](http://127.0.0.1:{site.port}/b)\n"

    def test_what_comes_with_scrolling_is_told_too(self, tool, site):
        site.page(
            "/s",
            "<body style='height: 5000px'>top<script>addEventListener('scroll', () => { if (scrollY > 3000 && "
            "!document.title) { document.title = 'x'; document.body.append('bottom') } })</script>",
        )
        assert "bottom" in visited(tool, f"http://127.0.0.1:{site.port}/s")

    def test_a_long_page_is_kept_in_a_file(self, tool, site):
        site.page("/l", "".join(f"<p>{number}</p>" for number in range(500)))
        assert "lines, all in " in visited(tool, f"http://127.0.0.1:{site.port}/l")

    def test_tabs_are_closed_again(self, tool, site, browser):
        site.page("/a", "a")
        for _ in range(3):
            visited(tool, f"http://127.0.0.1:{site.port}/a")
        end = time.monotonic() + 10
        while any("127.0.0.1" in url for url in _open_pages(browser)):
            assert time.monotonic() < end
            time.sleep(0.1)

    def test_a_page_that_never_comes_ends_when_the_user_interrupts(self, tool, site):
        site.page("/warm", "x")
        visited(tool, f"http://127.0.0.1:{site.port}/warm")
        running = Running()
        threading.Timer(0.5, running.interrupted.set).start()
        began = time.monotonic()
        with pytest.raises(ToolError, match="the user interrupted"):
            visited(tool, f"http://127.0.0.1:{site.port}/silent", running)
        assert time.monotonic() - began < 10

    def test_a_page_that_never_comes_ends_at_the_limit(self, browser, site):
        with pytest.raises(ToolError, match="took too long"):
            browser.see(f"http://127.0.0.1:{site.port}/silent", Running(), time_limit_s=2.0)

    def test_what_cannot_be_opened_says_why(self, tool):
        with pytest.raises(ToolError, match=r"cannot be opened: net::ERR_"):
            visited(tool, "http://127.0.0.1:1/")

    def test_a_near_page_is_only_told_after_the_user_was_asked(self, browser, site):
        site.page("/a", "secret")
        tool = VisitPage(browser, KeptPages(PrivateFolder()))
        url = f"http://127.0.0.1:{site.port}/a"
        with pytest.raises(ToolError, match="is this computer or one in its own network"):
            tool.run(Arguments({"url": url}), Running())
        assert site.asked == []
        assert "127.0.0.1 is this computer" in tool.risk(Arguments({"url": url}))

    def test_a_page_cannot_lead_to_one_nearby(self, browser, site):
        site.redirect("/a", f"http://localhost:{site.port}/b")
        site.page("/b", "secret")
        tool = VisitPage(browser, KeptPages(PrivateFolder()))
        with pytest.raises(ToolError, match="leads to localhost, which is this computer"):
            visited(tool, f"http://127.0.0.1:{site.port}/a")

    def test_a_search_gives_links_to_other_sites_and_a_snapshot(self, browser, site):
        site.page(
            "/search?q=white+dwarf%3F",
            "<button onclick='document.getElementById(\"r\").hidden = false'>Accept all</button>"
            "<a href=/settings>own</a><div id=r hidden><a href='https://example.org/a'><h3>First</h3><span>example.org</span></a>"
            "<a href='https://example.org/a'>again</a><a href='https://example.net/b'>Second</a></div>",
        )
        tool = GoogleSearch(browser, f"http://127.0.0.1:{site.port}/search?q=")
        text = tool.run(Arguments({"query": "white dwarf?"}), Running()).text
        assert text.split("\n")[1:3] == ["- [First](https://example.org/a)", "- [Second](https://example.net/b)"]
        site.page("/search?q=x", "nothing here")
        assert "No results for x. The page says:\nnothing here" in tool.run(Arguments({"query": "x"}), Running()).text

    def test_a_browser_that_was_killed_is_started_again_and_close_leaves_nothing(self, tmp_path, site):
        site.page("/a", "alive")
        url = f"http://127.0.0.1:{site.port}/a"
        program = find_browser()
        assert program is not None
        browser = Browser(program, tmp_path / "profile")
        tool = VisitPage(browser, KeptPages(PrivateFolder()))
        try:
            assert "starts the browser" in tool.risk(Arguments({"url": url}))
            visited(tool, url)
            assert "starts the browser" not in tool.risk(Arguments({"url": url}))
            assert browser._process is not None
            psutil.Process(browser._process.pid).kill()
            browser._process.wait()
            assert "alive" in visited(tool, url)
            group = browser._process.pid
        finally:
            browser.close()
            browser.close()
        end = time.monotonic() + 10
        while any(str(tmp_path) in " ".join(_command(one)) for one in psutil.process_iter()):
            assert time.monotonic() < end
            time.sleep(0.1)
        assert not psutil.pid_exists(group)


def _open_pages(browser):
    targets = browser._connected(Running()).call("Target.getTargets", {}, Running(), time.monotonic() + 5)
    return [one["url"] for one in targets["targetInfos"] if one["type"] == "page"]


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_browser_that_does_not_start_says_so(tmp_path):
    for program, words in [(Path("/bin/false"), "false does not start"), (tmp_path / "none", "cannot be started")]:
        browser = Browser(program, tmp_path / "profile")
        with pytest.raises(ToolError, match=words):
            VisitPage(browser, KeptPages(PrivateFolder())).run(Arguments({"url": "http://1.1.1.1/"}), Running())
        assert not browser.is_running


def test_where_nobody_can_be_asked_no_browser_is_started(tmp_path):
    browser = Browser(Path("/bin/false"), tmp_path / "profile")
    policy = Policy(NobodyToAsk(), by_tool={"visit_page": Rule.AUTO, "google_search": Rule.AUTO})
    for tool in (VisitPage(browser, KeptPages(PrivateFolder())), GoogleSearch(browser)):
        with pytest.raises(ToolError, match="does not allow"):
            policy.check_call(tool, Arguments({"url": "http://1.1.1.1/", "query": "x"}))
    assert not (tmp_path / "profile").exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "only http"),
        ("chrome://settings", "only http"),
        ("javascript:1", "only http"),
        ("", "only"),
    ],
)
def test_other_schemes_are_not_visited(tmp_path, url, words):
    tool = VisitPage(Browser(Path("/bin/false"), tmp_path), KeptPages(PrivateFolder()))
    with pytest.raises(ToolError, match=words):
        tool.run(Arguments({"url": url}), Running())


def test_an_empty_search_is_refused_and_summaries_never_raise(tmp_path):
    tool = GoogleSearch(Browser(Path("/bin/false"), tmp_path))
    with pytest.raises(ToolError, match="query is empty"):
        tool.run(Arguments({"query": " "}), Running())
    with pytest.raises(ToolError, match="query is missing"):
        tool.run(Arguments({}), Running())
    assert tool.summary(Arguments({"query": ["x"]})).startswith("Searching the web")
    visit = VisitPage(Browser(Path("/bin/false"), tmp_path), KeptPages(PrivateFolder()))
    assert visit.risk(Arguments({"url": {}})).startswith("starts the browser false")


def test_links_come_once_with_their_heading_or_text():
    html = "<a href=/a>one</a><a href='/a'>two</a><a href='#x'>no</a><a href=/b><h3>Head</h3>rest</a><a href=/c> </a>"
    assert page_links(html, "http://x.test/") == [("http://x.test/a", "one"), ("http://x.test/b", "Head")]
