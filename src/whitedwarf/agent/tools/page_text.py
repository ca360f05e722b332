"""A page of HTML as Markdown to read: headings, paragraphs, lists, links, code, rows of tables. Pure.

What is not text is left out. Nothing of the page is trusted: any nesting, any length, in linear time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urljoin

from whitedwarf.agent.tools.html_tokens import Close, Open, Text, html_tokens

MOST_DEPTH = 12  # of lists and quotes that show
_BLOCKS = frozenset(
    """address article aside body caption dd details dialog div dl dt fieldset figcaption figure footer form header
    hgroup html legend main nav p section summary table tbody tfoot thead tr""".split()  # noqa: SIM905
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`", "kbd": "`", "samp": "`", "tt": "`"}
_BLANKS = re.compile(r"[ \t\r\n\f\v\u00a0]+")


@dataclass(frozen=True, slots=True)
class Page:
    """A page's title and its text."""

    title: str
    markdown: str


def page_text(html: str, url: str) -> Page:
    """The page; `url` is what its links are relative to."""
    writer = _Writer(url)
    for token in html_tokens(html):
        match token:
            case Text(text):
                writer.text(text)
            case Open(name, attributes):
                writer.open(name, attributes.get("href") or attributes.get("alt") or "")
            case Close(name):
                writer.close(name)
    writer.end_block()
    return Page(_BLANKS.sub(" ", writer.title).strip(), "\n".join(writer.lines).strip("\n") + "\n")


def page_links(html: str, url: str) -> list[tuple[str, str]]:
    """Where a page leads, once each in their order: address and the link's text, in a line."""
    found: dict[str, str] = {}
    for token in _anchors(html):
        address = _absolute(url, token[0])
        title = _BLANKS.sub(" ", token[1]).strip()
        if address.startswith("http") and title:
            found.setdefault(address, title)
    return list(found.items())


def _anchors(html: str) -> Iterator[tuple[str, str]]:
    """(target, text) of each link; of its text the heading, where it has one."""
    target, pieces, heading, is_heading = "", list[str](), list[str](), False
    for token in html_tokens(html):
        match token:
            case Text(text):
                (heading if is_heading else pieces).append(text)
            case Open("a", attributes):
                target, pieces, heading = attributes.get("href", ""), [], []
            case Close("a"):
                yield target, "".join(heading or pieces)
                target = ""
            case Open(name) | Close(name):
                is_heading = isinstance(token, Open) if name in _HEADINGS else is_heading
                (heading if is_heading else pieces).append(" ")


@dataclass
class _Writer:
    base: str
    title: str = ""
    lines: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _links: list[tuple[int, str]] = field(default_factory=list)  # where in the pieces, to where
    _lists: list[int] = field(default_factory=list)  # the next number; 0 for bullets
    _quotes: int = 0
    _heading: str = ""
    _marker: str = ""  # of a list item that has no text yet
    _pre: list[str] | None = None
    _has_text: bool = False
    _is_title: bool = False

    def text(self, text: str) -> None:
        if self._is_title:
            self.title += text
        elif self._pre is not None:
            self._pre.append(text)
        else:
            self._pieces.append(text)
            self._has_text = self._has_text or not text.isspace()

    def open(self, name: str, value: str) -> None:
        if name == "title":
            self._is_title = not self.title
        elif self._pre is not None:
            if name == "br":
                self._pre.append("\n")
        elif name == "pre":
            self.end_block()
            self._pre = []
        elif name in _HEADINGS:
            self.end_block()
            self._heading = _HEADINGS[name]
        elif name in ("ul", "ol", "menu"):
            self.end_block()
            self._lists.append(1 if name == "ol" else 0)
        elif name == "li":
            self._begin_item()
        elif name == "blockquote":
            self.end_block()
            self._quotes += 1
        elif name == "a":
            self._end_link()
            self._links.append((len(self._pieces), value))
        elif name in ("td", "th"):
            self._pieces.append(" | " if self._has_text else "")
        elif name == "img" and value:
            self._pieces.append(f"[image: {value}]")
        elif name == "br":
            self._end_line()
        elif name == "hr":
            self.end_block()
            self._add(["---"])
        elif name in _MARKS:
            self._pieces.append(_MARKS[name])
        elif name in _BLOCKS:
            self.end_block()

    def close(self, name: str) -> None:
        if name == "title":
            self._is_title = False
        elif name == "pre":
            self._end_pre()
        elif self._pre is not None:
            return
        elif name in ("ul", "ol", "menu"):
            self.end_block()
            self._lists = self._lists[:-1]
        elif name == "blockquote":
            self.end_block()
            self._quotes = max(0, self._quotes - 1)
        elif name == "a":
            self._end_link()
        elif name in _MARKS:
            self._pieces.append(_MARKS[name])
        elif name in _BLOCKS or name in _HEADINGS or name == "li":
            self.end_block()

    def end_block(self) -> None:
        """What was collected is a paragraph, heading or list item."""
        if self._pre is not None:
            self._end_pre()
        self._end_line()
        self._heading = ""
        if self.lines and self.lines[-1] and not self._lists:
            self.lines.append("")

    def _end_line(self) -> None:
        self._end_link()
        text = _BLANKS.sub(" ", "".join(self._pieces)).strip()
        text = text.replace("****", "").replace("``", "")
        self._pieces.clear()
        self._has_text = False
        if text.strip("*`| "):
            self._add([self._heading + text])
            self._heading = ""

    def _begin_item(self) -> None:
        self.end_block()
        number = self._lists[-1] if self._lists else 0
        self._marker = f"{number}. " if number else "- "
        if number:
            self._lists[-1] += 1

    def _end_link(self) -> None:
        if not self._links:
            return
        start, target = self._links.pop()
        text = _BLANKS.sub(" ", "".join(self._pieces[start:]))
        url = _absolute(self.base, target)
        if url and text.strip():
            before, after = (" " if text.startswith(" ") else ""), (" " if text.endswith(" ") else "")
            text = f"{before}[{text.strip()}]({url}){after}"
        self._pieces[start:] = [text]

    def _end_pre(self) -> None:
        if self._pre is None:
            return
        text, self._pre = "".join(self._pre).strip("\n"), None
        if text.strip():
            fence = "````" if "```" in text else "```"
            self._add([fence, *text.split("\n"), fence])
            self.end_block()

    def _add(self, lines: list[str]) -> None:
        quote = "> " * min(self._quotes, MOST_DEPTH)
        depth = min(len(self._lists), MOST_DEPTH)
        indent = "  " * (depth - 1 if self._marker and depth else depth)
        for line in lines:
            self.lines.append((quote + indent + self._marker + line).rstrip())
            indent = "  " * depth if self._marker else indent
            self._marker = ""


def _absolute(base: str, target: str) -> str:
    """The link's address; empty for what leads nowhere else."""
    target = target.strip()
    if not target or target.startswith("#"):
        return ""
    try:
        url = urljoin(base, target)
    except ValueError:
        return ""
    return url.replace(" ", "%20").replace(")", "%29") if url.startswith(("http://", "https://", "mailto:")) else ""
