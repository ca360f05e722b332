"""Code, output and changes as lines."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.agent.tui.code import LONGEST_LINE, StreamingCode
from whitedwarf.agent.tui.diff import diff_rows
from whitedwarf.agent.tui.elements import Code, Row
from whitedwarf.agent.tui.growing_text import LONGEST_LINE as LONGEST_OUTPUT_LINE
from whitedwarf.agent.tui.growing_text import GrowingText


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(["def f():\n", "    x = '''\n", "\n", "'''\n", "a", "\t", "\r\n", "\x0b\x1c"]), max_size=12
    )
)
def test_code_keeps_every_line_whatever_the_lexer_does(pieces: list[str]) -> None:
    code = StreamingCode("python")
    for piece in pieces:
        code.feed(piece)
    code.finish()
    expected = "".join(pieces).split("\n")
    assert len(code.lines) == len(expected) - (expected[-1] == "")


def test_code_has_colours_by_its_path_and_none_when_the_language_is_not_known() -> None:
    known, unknown = StreamingCode(path="src/a.py"), StreamingCode("no such language")
    for code in (known, unknown):
        code.feed("def f():\n    return 1\nha")
    assert [line.plain for line in known.lines] == ["def f():", "    return 1"]
    assert len(known.lines[0].spans) > 2
    assert [line.plain for line in unknown.lines] == ["def f():", "    return 1"]
    assert known.partial.plain == "ha"


def test_a_very_long_line_of_code_has_no_colours() -> None:
    code = StreamingCode("json")
    code.feed("[" + "1," * LONGEST_LINE + "\n")
    assert code.lines[0].spans == []


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab\n 日", max_size=80), st.lists(st.integers(0, 80), max_size=4), st.integers(9, 40))
def test_growing_text_is_the_same_in_any_pieces(text: str, cuts: list[int], width: int) -> None:
    whole, pieces = GrowingText(), GrowingText()
    whole.feed(text)
    begin = 0
    for end in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
        pieces.feed(text[begin:end])
        pieces.lines(width)
        begin = end
    assert [line.plain for line in pieces.lines(width)] == [line.plain for line in whole.lines(width)]
    assert pieces.line_count == whole.line_count


def test_what_a_program_writes_over_is_not_shown() -> None:
    text = GrowingText()
    text.feed("10%\r50%\r100%\r\nnext\r")
    assert [line.plain for line in text.lines(40)] == ["100%", "next"]


def test_a_line_without_an_end_is_cut() -> None:
    text = GrowingText()
    for _ in range(10):
        text.feed("x" * LONGEST_OUTPUT_LINE)
    assert text.line_count == 10


def test_output_is_folded_anywhere_and_prose_at_words() -> None:
    output, prose = GrowingText(is_prose=False), GrowingText()
    for text in (output, prose):
        text.feed("one  two three")
    assert [line.plain for line in output.lines(9)] == ["one  two ", "three"]
    assert [line.plain.rstrip() for line in prose.lines(9)] == ["one  two", "three"]


def test_wide_characters_are_never_cut_in_half() -> None:
    assert [line.plain for line in Code([*Row(_content("日本語の文字")).lines(100)]).lines(9)] == ["日本語の", "文字"]


@pytest.mark.parametrize("text", ["", "no diff", "@@ nonsense\n+x", "\\ No newline"])
def test_what_is_no_diff_has_no_rows(text: str) -> None:
    assert diff_rows(text) == []


def test_a_diff_has_numbers_signs_and_a_mark_between_its_parts() -> None:
    diff = (
        "--- a\n+++ b\n@@ -1,2 +1,3 @@ def f\n one\n-two\n+2\n+3\n\\ No newline at end of file\n@@ -9 +10 @@\n-x\n+\n"
    )
    assert [row.plain for row in diff_rows(diff)] == [
        "   1   one",
        "   2 - two",
        "   2 + 2",
        "   3 + 3",
        "   ⋮",
        "   9 - x",
        "  10 +  ",
    ]


def test_the_sides_of_a_diff_have_colours() -> None:
    styles = [str(span.style) for row in diff_rows("@@ -1 +1 @@\n-a\n+b\n") for span in row.spans]
    assert "$text-error on $error-muted" in styles
    assert "$text-success on $success-muted" in styles


def _content(text: str):  # type: ignore[no-untyped-def]
    from textual.content import Content

    return Content(text)
