"""What `old` means in a file: against a slow reference, and every reason why it means nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.tools.anchors import MARKER, Span, find_span, is_good_head

TEXT = b"def a():\n    return 1\n\n\ndef b():\n    x = 1\n    return 2\n\n\ndef c():\n    return 3\n"


def reference(data, old):
    """None, or the span: looked for at every place, by the words of the specification."""

    def places(text, start=0):
        return [place for place in range(start, len(data) + 1) if data[place : place + len(text)] == text]

    if not old:
        return None
    if places(old):
        return (places(old)[0], places(old)[0] + len(old)) if len(places(old)) == 1 else None
    if old.count(MARKER) != 1:
        return None
    head, tail = old.split(MARKER)
    while tail[:1] in (b"\n", b"\r") and tail:
        tail = tail[1:]
    if not head.strip() or not tail.strip() or len(places(head)) != 1:
        return None
    ends = places(tail, places(head)[0] + len(head))
    return (places(head)[0], ends[0] + len(tail)) if len(ends) == 1 else None


pieces = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b" ", MARKER]), max_size=4).map(b"".join)


@given(
    data=st.lists(st.sampled_from([b"a", b"b", b"c", b"\n", b" ", b"\xff"]), max_size=12).map(b"".join),
    old=st.one_of(pieces, st.tuples(pieces, pieces).map(MARKER.join)),
    is_marked=st.booleans(),
)
@settings(max_examples=500)
def test_it_is_what_the_reference_says(data, old, is_marked):
    data = data + MARKER + b"z" if is_marked else data
    expected = reference(data, old)
    try:
        span = find_span(data, old)
    except ToolError:
        assert expected is None
    else:
        assert (span.start, span.end) == expected


@given(st.binary(max_size=30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_a_part_of_the_file_cut_short_means_that_part_wherever_its_ends_are_unique(data, a, b, c, d):
    a, b, c, d = sorted((a, b, c, d))
    head, tail = data[a:b], data[c:d].lstrip(b"\r\n")
    if MARKER in data or not head.strip() or not tail.strip():
        return
    try:
        span = find_span(data, head + b"[upto]\n" + tail)
    except ToolError:
        is_head_unique = data.count(head) == 1 and data.find(head, data.find(head) + 1) < 0
        rest = data[b:]
        assert not (is_head_unique and rest.find(tail) == rest.rfind(tail) >= 0)
    else:
        assert (span.start, span.is_anchored) == (data.index(head), True)
        assert data[span.start : span.end].startswith(head)
        assert data[span.start : span.end].endswith(tail)


def test_head_and_tail_replace_all_between():
    span = find_span(TEXT, b"def b():\n[upto]\n    return 2\n")
    assert TEXT[span.start : span.end] == b"def b():\n    x = 1\n    return 2\n"


def test_a_tail_may_occur_before_the_head():
    assert find_span(TEXT, b"def c():[upto]    return ").is_anchored
    with pytest.raises(ToolError, match=r"more than once after the head: in lines 2, 7, 11"):
        find_span(TEXT, b"def a():[upto]    return ")


def test_a_mark_that_the_file_holds_is_text():
    assert find_span(b"a\n[upto]\nb\n", b"a\n[upto]\nb\n") == Span(0, 11)
    assert find_span(b"a\nb\n[upto]\n", b"a\n[upto]\nb\n") == Span(0, 4, is_anchored=True)


@pytest.mark.parametrize(
    ("old", "words"),
    [
        (b"", "old is empty"),
        (b"def d():", r"old does not occur in the file\. Read the file again"),
        (b"    return", "old occurs more than once: in lines 2, 7, 11. Take more lines"),
        (b"a[upto]b[upto]c", r"has 2 \[upto\]; exactly one"),
        (b"[upto]return 1", r"nothing stands before \[upto\]"),
        (b" \n[upto]return 1", r"nothing stands before \[upto\]"),
        (b"def a():\n[upto]", r"nothing stands after \[upto\]"),
        (b"def a():\n[upto]\n \n", r"nothing stands after \[upto\]"),
        (b"def d():\n[upto]\nreturn 3", "the head .* does not occur"),
        (b"def \n[upto]\nreturn 3", "the head .* does not occur"),
        (b"def [upto]return 3", "the head .* occurs more than once: in lines 1, 5, 10"),
        (
            b"def c():\n[upto]\n    return 1\n",
            "does not occur after the head, which ends in line 10. It does occur before",
        ),
        (b"def c():\n[upto]\nreturn 4\n", "the tail .* does not occur after the head"),
        (b"1 def a():\n2     return 1\n", "Leave the line numbers out"),
        (b"def b():\n\tx = 1\n", "same words are in line 5 with other white space"),
        (b"def b():\n    x = 2\n", "first line is in line 5, but what follows there is different"),
        (b"def b():\n[UPTO]\n    return 2\n", r"The mark is written \[upto\]"),
        (b"def b():[upto]return   2", "does not occur after the head"),
    ],
)
def test_what_names_no_place_says_why(old, words):
    with pytest.raises(ToolError, match=words):
        find_span(TEXT, old)


def test_many_places_are_not_all_listed():
    with pytest.raises(ToolError, match=r"in lines 1, 2, 3, 4, 5, \.\.\."):
        find_span(b"x\n" * 100, b"x")


def test_the_head_of_a_long_old_is_good_once_it_is_long_whole_and_only_there():
    line = b"    value = compute_something(first, second)\n"
    assert is_good_head(line + b"other\n" + line * 3, line + b"other\n" + line)
    for data, text in [
        (line + line, line),  # one line
        (line + b"other\n", line + b"other"),  # not whole
        (line + b"a\n", b"a\n"),  # short
        ((line + b"other, other, other\n") * 2, line + b"other, other, other\n"),  # twice
        (line, line + b"other, other, other\n"),  # not there
        (line + b"\n" + b" " * 40 + b"\n", line + b"\n" + b" " * 40 + b"\n"),  # one line that is not empty
        (line + b"[upto]\n" + line, line + b"[upto]\n" + line),  # a mark already
    ]:
        assert not is_good_head(data, text)
