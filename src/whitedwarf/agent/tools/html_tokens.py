"""HTML as a stream of text and tags: lenient, never an error, and linear in its length whatever it holds.

Not the standard library's html.parser: before 3.11.14 that needs quadratic time for unclosed tags and comments.
"""

import html
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

LONGEST_TAG = 1 << 16
_MOST_ODD_TAGS = 100  # then quotes are not looked at any more
_NAME = re.compile(r"/?([A-Za-z][A-Za-z0-9:-]{0,40})")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]{1,100})(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_QUOTE_OR_END = re.compile(r"[\"'>]")
_RAW = frozenset({"script", "style", "textarea", "title", "noscript", "template", "iframe", "xmp"})


@dataclass(frozen=True, slots=True)
class Text:
    """Characters, references resolved."""

    text: str


@dataclass(frozen=True, slots=True)
class Open:
    """A tag that opens; names are lower case."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Close:
    """A tag that closes, whether or not it was open."""

    name: str


Token = Text | Open | Close


class _Scanner:
    """Finds ends, and remembers what is nowhere to be found, so that nothing is looked for again and again."""

    def __init__(self, text: str) -> None:
        lower = text.lower()
        self.text = text
        self._lower = lower if len(lower) == len(text) else text  # some capitals have two small letters
        self._missing: set[str] = set()
        self._odd_tags = 0

    def find(self, what: str, start: int) -> int:
        """As str.find, of a text in lower case; starts never go back."""
        if what in self._missing:
            return -1
        place = self._lower.find(what, start)
        if place < 0:
            self._missing.add(what)
        return place

    def tag_end(self, start: int) -> int:
        """Behind the `>` of a tag, where quoted ones do not count as long as the quotes make sense; 0 for none."""
        if self._odd_tags < _MOST_ODD_TAGS:
            place, most = start, start + LONGEST_TAG
            while found := _QUOTE_OR_END.search(self.text, place, most):
                if found[0] == ">":
                    return found.end()
                place = self.text.find(found[0], found.end(), most) + 1
                if not place:
                    break
            self._odd_tags += 1
        return self.find(">", start) + 1


def html_tokens(text: str) -> Iterator[Token]:
    """All of a page. What is inside scripts and their like is left out, a title's comes as one text."""
    scanner = _Scanner(text)
    place = 0
    while place < len(text):
        start = text.find("<", place)
        if start < 0:
            start = len(text)
        if start > place:
            yield Text(html.unescape(text[place:start]))
        place = start
        if start < len(text):
            place = yield from _markup(scanner, start)


def _markup(scanner: _Scanner, start: int) -> Generator[Token, None, int]:
    """What begins with this `<`; returns where it ends."""
    text = scanner.text
    if text.startswith(("<!", "<?"), start):
        end = "-->" if text.startswith("<!--", start) else ">"
        place = scanner.find(end, start + 2)
        return place + len(end) if place >= 0 else len(text)
    name = _NAME.match(text, start + 1)
    end_of_tag = scanner.tag_end(name.end()) if name else 0
    if name is None or not end_of_tag:
        yield Text("<")
        return start + 1
    if text[start + 1] == "/":
        yield Close(name[1].lower())
        return end_of_tag
    yield Open(name[1].lower(), _attributes(text[name.end() : end_of_tag - 1]))
    if name[1].lower() not in _RAW:
        return end_of_tag
    end_of_raw = scanner.find(f"</{name[1].lower()}", end_of_tag)
    if end_of_raw < 0:
        return len(text)
    if name[1].lower() == "title":
        yield Text(html.unescape(text[end_of_tag:end_of_raw]))
    return end_of_raw


def _attributes(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for one in _ATTRIBUTE.finditer(text):
        found.setdefault(one[1].lower(), html.unescape(one[2] or one[3] or one[4] or ""))
    return found
