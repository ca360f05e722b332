"""Diffs: as difflib's where both compare, applied they give the new text, and never endless."""

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.tools.unified_diff import MAX_DIFF_CHARS, MAX_DIFF_LINES, MAX_LINE_CHARS, unified_diff

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n"]), max_size=30).map("".join)


def applied(before, diff):
    """What a reader of the diff makes of the old text."""
    old = before.split("\n")
    old = [line + "\n" for line in old[:-1]] + ([old[-1]] if old[-1] else [])
    new, place = [], 0
    rows = diff.split("\n")[2:-1]
    for index, row in enumerate(rows):
        if row.startswith("@@"):
            span = row.split(" ")[1][1:].split(",")
            start = int(span[0]) - (0 if span[1:] == ["0"] else 1)
            new += old[place:start]
            place = start
            continue
        line = row[1:] + ("" if rows[index + 1 : index + 2] == ["\\ No newline at end of file"] else "\n")
        if row[0] in " -":
            assert old[place] == line
            place += 1
        if row[0] in " +":
            new.append(line)
    return "".join(new + old[place:])


@given(TEXTS, TEXTS, st.sampled_from(["", "end"]), st.sampled_from(["", "end"]))
def test_applied_to_the_old_text_it_gives_the_new_one(before, after, old_end, new_end):
    before, after = before + old_end, after + new_end
    diff = unified_diff(before, after, "x")
    assert (applied(before, diff) if diff else before) == after


@given(st.text("a\n", max_size=40), st.integers(0, 40))
def test_one_change_looks_as_difflibs(text, place):
    after = text[:place] + "b" + text[place:]
    expected = difflib.unified_diff(
        text.splitlines(keepends=True), after.splitlines(keepends=True), "a/x", "b/x", lineterm="\n"
    )
    if text.endswith("\n") and after.endswith("\n"):
        assert unified_diff(text, after, "x").count("\n+") == "".join(expected).count("\n+")


def test_equal_texts_have_none():
    assert unified_diff("a\n", "a\n", "x") == ""
    assert unified_diff(None, "", "x") == "--- /dev/null\n+++ b/x\n"


def test_everything_changed_in_a_hundred_thousand_lines_takes_no_time_and_is_cut():
    before = "".join(f"{number}\n" for number in range(100_000))
    after = "".join(f"x{number}\n" for number in range(100_000))
    began = time.process_time()
    diff = unified_diff(before, after, "x")
    assert time.process_time() - began < 20
    assert diff.count("\n") == MAX_DIFF_LINES + 1
    assert diff.endswith("... more changes are not shown\n")


def test_a_diff_of_very_long_lines_has_a_bounded_length_too():
    one_line = unified_diff("a" * (4 << 20), "b" * (4 << 20), "x")
    assert len(one_line) < 2 * MAX_LINE_CHARS + 200
    assert f"{(4 << 20) + 1 - MAX_LINE_CHARS} more characters are not shown" in one_line
    many = unified_diff(None, "\n".join(["c" * 9_000] * 1_000), "x")
    assert len(many) < MAX_DIFF_CHARS + 2 * MAX_LINE_CHARS
    assert many.endswith("... more changes are not shown\n")
