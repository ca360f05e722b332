"""GET /: a page for browsers, text for everybody else."""

import dataclasses
from html.parser import HTMLParser

from server.serving import MODEL, HandEngine, serving
from server.test_props import FACTS
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.facts import Facts
from whitedwarf.server.metrics import Load
from whitedwarf.server.openapi import openapi_document
from whitedwarf.server.status_page import ADDRESSES, StatusPage

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


class Elements(HTMLParser):
    """Every element's name and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_terminal_gets_text_and_a_browser_a_page(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, facts=FACTS) as server:
        plain, page = server.client.get("/"), server.client.get("/", headers=BROWSER)
    assert plain.headers["content-type"].startswith("text/plain")
    assert page.headers["content-type"].startswith("text/html")
    assert plain.headers["vary"] == page.headers["vary"] == "accept"
    for text in (plain.text, page.text):
        for word in (
            "Tiny",
            "1000 tokens",
            "0 running (at most 3), 0 waiting",
            "40 %",
            "3 checkpoints",
            "/v1/messages",
        ):
            assert word in text


def test_the_page_is_whole_in_itself_and_may_fetch_nothing(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        page = server.client.get("/", headers=BROWSER)
        elements = Elements()
        elements.feed(page.text)
        for tag, attributes in elements.found:
            assert tag not in ("script", "img", "link", "iframe", "form")
            assert not {"src", "style"} & set(attributes)
            if "href" in attributes:
                assert server.client.get(str(attributes["href"])).status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_a_models_name_cannot_become_markup() -> None:
    model = dataclasses.replace(MODEL, name="<script>alert(1)</script>")
    page = StatusPage(model, Facts(backend="<b>"), Load(0, 0)).html()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_the_addresses_shown_are_those_of_the_document() -> None:
    shown = {path for paths in ADDRESSES.values() for path in paths}
    assert shown <= set(openapi_document()["paths"])
