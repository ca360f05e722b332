"""Pages as Markdown: what shows, what does not, and that no page takes long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.tools.html_tokens import Close, Open, Text, html_tokens
from whitedwarf.agent.tools.page_text import page_text

URL = "https://example.org/a/b.html"


def markdown(html):
    return page_text(html, URL).markdown


def test_a_page_reads_as_one():
    page = page_text(
        """<!DOCTYPE html><html><head><title>A &amp; B
        page</title><style>p {color: red}</style><script>if (a < b) document.write("<p>x</p>")</script></head>
        <body><nav><a href="/">Home</a></nav><h1>Head <em>line</em></h1>
        <p>One   two<br>three &lt;four&gt; <a href="../c?x=1&amp;y=2">link</a>.</p>
        <ul><li>first<li><p>second</p><ol><li>inner</li><li>other</li></ol></li></ul>
        <pre><code>def f():
    return 1 &lt; 2
</code></pre><!-- hidden <p>no</p> -->
        <blockquote><p>said</p></blockquote><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
        <hr><img src="x.png" alt="a cat"><img src="y.png"></body></html>""",
        URL,
    )
    assert page.title == "A & B page"
    assert page.markdown == (
        "[Home](https://example.org/)\n\n"
        "# Head *line*\n\n"
        "One two\nthree <four> [link](https://example.org/c?x=1&y=2).\n\n"
        "- first\n- second\n  1. inner\n  2. other\n\n"
        "```\ndef f():\n    return 1 < 2\n```\n\n"
        "> said\n\n"
        "a | b\n\n1 | 2\n\n---\n[image: a cat]\n"
    )


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("", "\n"),
        ("plain", "plain\n"),
        ("a < b and c<d", "a < b and c<d\n"),
        ("<p>open", "open\n"),
        ("<a href='javascript:alert(1)'>x</a>", "x\n"),
        ("<a href='#here'>x</a>", "x\n"),
        ("<a href='http://['>x</a>", "x\n"),
        ("<a href='data:text/html,x'>x</a> <a>y</a>", "x y\n"),
        ("<a href=/p(1)>x", "[x](https://example.org/p(1%29)\n"),
        ("a<script>b", "a\n"),
        ("a<!-- b", "a\n"),
        ("a<![CDATA[b]]>c", "ac\n"),
        ("<p title='a > b'>x</p>", "x\n"),
        ("</p></ul></blockquote></pre>x", "x\n"),
        ("<pre>```</pre>", "````\n```\n````\n"),
        ("<svg><title>icon</title></svg>x", "x\n"),
        ("<SCRIPT>x</SCRIPT>y", "y\n"),
        ("<p>&nbsp;</p><p></p>x", "x\n"),
        ("<b></b>x<code></code>", "x\n"),
    ],
)
def test_odd_pages_read_sensibly(html, expected):
    assert markdown(html) == expected


def test_tokens_are_what_they_look_like():
    assert list(html_tokens("<P Class=a data-x='1 &lt;' b>t&amp;</p >")) == [
        Open("p", {"class": "a", "data-x": "1 <", "b": ""}),
        Text("t&"),
        Close("p"),
    ]


@given(st.text(alphabet="<>/!-='\" \nabpre&;#1li", max_size=80))
def test_nothing_is_an_error(html):
    page_text(html, URL)


@given(st.text(st.characters(codec="utf-8", exclude_characters="<&"), max_size=50))
def test_text_without_markup_stays_but_for_blanks(text):
    tokens = list(html_tokens(text))
    assert tokens == ([Text(text)] if text else [])


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a",
        "<a ",
        "<a '",
        "<a \"'>",
        "<!--",
        "<!",
        "</",
        "<div>",
        "<ul><li>",
        "<script>",
        "<title>",
        "<b>",
        "&",
        "&#1",
        "<a href=x>",
        "<a href='x",
        "<pre>",
        "</pre>",
        "<td>",
        "<blockquote>",
        "<br>",
        " ",
        "`",
        '<p x="',
        "<textarea",
    ],
)
def test_a_lot_of_anything_takes_no_time(piece):
    began = time.process_time()
    page_text(piece * (150_000 // len(piece)), URL)
    assert time.process_time() - began < 30
