"""Markdown that grows gives the same lines however it is cut, and no more than text."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.content import Content

from whitedwarf.agent.tui.markdown import LONGEST_BLOCK, GrowingMarkdown

TEXT = """# Title

Some *soft* and **loud** words, `code`, ~~gone~~, and [a link](https://x.y/z).
second line

- one
- two
  - nested
    more

1. a

   para
2. b

> quote
> more

| a | b |
|---|---|
| 1 | 日本語 |

```python
def f():
    return 1

```

~~~
plain ``` code
~~~
after

    indented

***
end <b>html</b> ![img](x.png)
"""
_PIECES = [
    "# a\n",
    "- b\n",
    "  c\n",
    "\n",
    "```py\n",
    "```\n",
    "x = 1\n",
    "| a | b |\n",
    "|---|---|\n",
    "> q",
    "1. d\n",
    "*e*",
    " ",
]


def lines(text: str, width: int = 60, cuts: list[int] | None = None, is_plain: bool = False) -> list[str]:
    """Fed in pieces, looked at after each, and finished."""
    grown = GrowingMarkdown(is_plain)
    ends = [*sorted(cuts or []), len(text)]
    begin = 0
    for end in ends:
        grown.feed(text[begin:end])
        grown.lines(width)
        begin = max(begin, end)
    grown.finish()
    return [line.plain for line in grown.lines(width)]


def test_every_kind_of_block_is_shown() -> None:
    assert lines(TEXT) == [
        "Title",
        "",
        "Some soft and loud words, code, gone, and a link",
        "(https://x.y/z).",
        "second line",
        "",
        "• one",
        "• two",
        "  • nested",
        "    more",
        "",
        "1. a",
        "   ",
        "   para",
        "",
        "2. b",
        "",
        "▌ quote",
        "▌ more",
        "",
        "a │ b     ",
        "──┼───────",
        "1 │ 日本語",
        "",
        "python",
        "│ def f():",
        "│     return 1",
        "│ ",
        "",
        "│ plain ``` code",
        "",
        "after",
        "",
        "│ indented",
        "",
        "─" * 60,
        "",
        "end <b>html</b> [image: img] (x.png)",
    ]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50])
def test_pieces_of_one_size_give_the_same_lines(step: int) -> None:
    assert lines(TEXT, cuts=list(range(step, len(TEXT), step))) == lines(TEXT)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join), st.data())
def test_any_cut_gives_the_same_lines(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    assert lines(text, cuts=cuts) == lines(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(10, 80))
def test_no_text_breaks_it_and_no_control_character_gets_through(text: str, width: int) -> None:
    shown = "".join(lines(text, width))
    assert not [character for character in shown if ord(character) < 32 or 127 <= ord(character) < 160]


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="ab 日本🙂*`_\n-", max_size=300), st.integers(12, 80))
def test_no_line_is_wider_than_asked(text: str, width: int) -> None:
    grown = GrowingMarkdown()
    grown.feed(text)
    grown.finish()
    assert all(line.cell_length <= width for line in grown.lines(width) if not line.plain.startswith(" "))


def test_markup_of_the_screens_own_is_text() -> None:
    assert lines("[bold red]x[/] [@click=app.exit]y[/]") == ["[bold red]x[/] [@click=app.exit]y[/]"]


def test_a_link_shows_where_it_leads_and_cannot_be_clicked() -> None:
    grown = GrowingMarkdown()
    grown.feed("[https://bank.example](https://evil.example) [x](javascript:alert(1)) <file:///etc/passwd>")
    grown.finish()
    (line,) = grown.lines(120)
    assert line.plain == ("https://bank.example (https://evil.example) [x](javascript:alert(1)) <file:///etc/passwd>")
    assert not [span for span in line.spans if "link" in str(span.style) or "click" in str(span.style)]


def test_bold_and_code_have_styles() -> None:
    grown = GrowingMarkdown()
    grown.feed("a **b** `c` *d*")
    (line,) = grown.lines(40)
    assert [str(span.style) for span in line.spans] == ["bold", "$text-accent", "italic"]


def test_a_table_that_has_no_room_becomes_a_list() -> None:
    table = "| name | what it does |\n|---|---|\n| first | something that takes room |\n| second | more |\n"
    assert lines(table, width=24) == [
        "name: first",
        "what it does:",
        "  something that takes",
        "  room",
        "",
        "name: second",
        "what it does: more",
    ]


def test_for_ears_there_are_no_drawn_lines() -> None:
    text = "\n".join(lines(TEXT, is_plain=True))
    assert not set(text) & set("│─┼▌•")
    assert "code, python:" in text
    assert "a: 1" in text


def test_another_width_wraps_again() -> None:
    grown = GrowingMarkdown()
    grown.feed("one two three four\n\nfive six\n")
    grown.finish()
    assert [line.plain.rstrip() for line in grown.lines(10)] == ["one two", "three four", "", "five six"]
    assert [line.plain for line in grown.lines(40)] == ["one two three four", "", "five six"]


def test_what_is_complete_is_not_made_again() -> None:
    grown = GrowingMarkdown()
    grown.feed("first\n\nsecond\n\nthird")
    before: list[Content] = grown.lines(40)
    grown.feed(" and more")
    assert grown.lines(40)[0] is before[0]


def test_a_block_without_an_end_costs_no_more_than_its_limit() -> None:
    grown = GrowingMarkdown()
    for _ in range(40):
        grown.feed("word " * (LONGEST_BLOCK // 50))
        grown.lines(80)
    assert len(grown._pending) <= 2 * LONGEST_BLOCK


def test_a_list_that_is_longer_than_a_block_may_be_keeps_its_items_and_numbers() -> None:
    text = "".join(f"{number}. item {number} with `code` and some more words\n" for number in range(1, 301))
    found = lines(text, cuts=list(range(0, len(text), 97)))
    assert [line for line in found if line] == [f"{n}. item {n} with code and some more words" for n in range(1, 301)]


@pytest.mark.parametrize(
    "piece", ["[", "*", "`", "> ", "- ", "![", "<", "_a", "~", "|", "\\", "&", "1. ", "[a](", "```\n"]
)
def test_no_repetition_takes_long(piece: str) -> None:
    """A limit for catastrophes only: quadratic time in the length would take minutes."""
    grown = GrowingMarkdown()
    began_s = time.process_time()
    grown.feed(piece * (4 * LONGEST_BLOCK // len(piece)))
    grown.lines(80)
    grown.finish()
    grown.lines(80)
    assert time.process_time() - began_s < 20
