"""edit: what changes, what stays, what is told, and what is said before `new` is written."""

import errno
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent import guarded_files
from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools.anchors import Span
from whitedwarf.agent.tools.edit import Edit, Edited, report
from whitedwarf.agent.workspace import Workspace


@pytest.fixture
def tool(tmp_path):
    return Edit(Workspace(tmp_path))


def edit(tool, old, new, path="a"):
    return tool.run(Arguments({"path": path, "old": old, "new": new}), Running())


def numbered(first, last):
    return "".join(f"line {number}\n" for number in range(first, last + 1))


def test_one_place_is_replaced_and_shown_with_5_lines_before_and_8_after(tool, tmp_path):
    (tmp_path / "a").write_text(numbered(1, 30))
    outcome = edit(tool, "line 10\nline 11\n", "ten\n")
    rows = outcome.text.split("\n")
    assert rows[0] == "edited a: replaced lines 10-11; now line 10; lines after it moved by -1"
    assert rows[1] == "lines 5-18 of 29 now:"
    assert rows[2:] == [
        f"{number} {text}"
        for number, text in enumerate(
            [*(f"line {n}" for n in range(5, 10)), "ten", *(f"line {n}" for n in range(12, 20))], start=5
        )
    ]
    assert (tmp_path / "a").read_text() == numbered(1, 9) + "ten\n" + numbered(12, 30)
    assert "@@ -7,8 +7,7 @@" in outcome.diff


def test_from_a_head_to_a_tail(tool, tmp_path):
    (tmp_path / "a").write_text(numbered(1, 100))
    outcome = edit(tool, "line 3\n[upto]\nline 98\n", "all\n")
    assert outcome.text.startswith(
        "edited a: replaced lines 3-98; now line 3; lines after it moved by -95\nlines 1-5 of 5"
    )
    assert (tmp_path / "a").read_text() == "line 1\nline 2\nall\nline 99\nline 100\n"


def test_a_removal_and_an_empty_file_are_told(tool, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    assert edit(tool, "one\n", "").text == (
        "edited a: removed text in line 1; lines after it moved by -1\nline 1 of 1 now:\n1 two"
    )
    assert edit(tool, "two\n", "").text == (
        "edited a: removed text in line 1; lines after it moved by -1\nthe file is empty now"
    )


def test_a_long_edit_is_shown_by_its_ends(tool, tmp_path):
    (tmp_path / "a").write_text(numbered(1, 20))
    rows = edit(tool, "line 10\n", numbered(101, 137)).text.split("\n")
    assert rows[0] == "edited a: replaced line 10; now lines 10-46; lines after it moved by +36"
    assert rows[1] == "lines 5-54 of 56 now:"
    assert rows[7:][:1] == ["10 line 101"]
    assert rows[24:27] == ["27 line 118", "... 1 lines left out ...", "29 line 120"]
    assert rows[-1] == "54 line 18"


def test_exactly_36_lines_are_shown_whole():
    text = report("a", Edited(b"x\n", Span(0, 2), b"y\n" * 36))
    assert "left out" not in text
    assert "1 lines left out" in report("a", Edited(b"x\n", Span(0, 2), b"y\n" * 37))


def test_cr_lf_stays_and_the_model_need_not_know(tool, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    edit(tool, "one\ntwo\n", "1\n2\n2b\n")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"
    edit(tool, "1\r\n[upto]\r\n2b\r\n", "x\r\n")
    assert (tmp_path / "a").read_bytes() == b"x\r\nthree\r\n"


def test_mixed_line_ends_are_matched_to_the_byte(tool, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\nthree\n")
    with pytest.raises(ToolError, match="Some lines of this file end with CR LF and some with LF"):
        edit(tool, "one\ntwo\n", "x")
    edit(tool, "one\r\ntwo\n", "1\r\n2\n")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\nthree\n"


def test_bytes_that_are_no_utf8_and_nul_stay(tool, tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9\n\0\nend")
    edit(tool, "end", "fin")
    assert (tmp_path / "a").read_bytes() == b"caf\xe9\n\0\nfin"


def test_a_missing_last_line_end_stays_missing(tool, tmp_path):
    (tmp_path / "a").write_text("one\ntwo")
    assert "lines 1-2 of 2 now:\n1 one\n2 2" in edit(tool, "two", "2").text
    assert (tmp_path / "a").read_text() == "one\n2"


def test_very_long_lines_are_clipped_in_what_is_told(tool, tmp_path):
    (tmp_path / "a").write_text("x" * 100_000 + "needle\n")
    assert len(edit(tool, "needle", "pin").text) < 600


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"old": "x", "new": "y"}, "path is missing"),
        ({"path": "a", "new": "y"}, "old is missing"),
        ({"path": "a", "old": "one"}, "new is missing"),
        ({"path": "a", "old": "", "new": "y"}, "a: old is empty"),
        ({"path": "a", "old": "four", "new": "y"}, "a: old does not occur"),
        ({"path": "a", "old": "o", "new": "y"}, "a: old occurs more than once"),
        ({"path": "a", "old": "one[upto]two", "new": "1 [upto] 2"}, r"new has \[upto\]"),
        ({"path": "a", "old": "one", "new": "one"}, "nothing was changed"),
        ({"path": "a", "old": "\ud800", "new": "y"}, "old holds half of a surrogate pair"),
        ({"path": "a", "old": "one", "new": "\udfff"}, "new holds half of a surrogate pair"),
        ({"path": "missing", "old": "x", "new": "y"}, "no such file"),
        ({"path": "/etc/passwd", "old": "root", "new": "y"}, "only written below"),
        ({"path": ".", "old": "root", "new": "y"}, "is a folder"),
    ],
)
def test_what_cannot_be_done_changes_nothing(tool, tmp_path, values, words):
    (tmp_path / "a").write_text("one\ntwo\n")
    with pytest.raises(ToolError, match=words):
        tool.run(Arguments(values), Running())
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_a_full_disk_leaves_the_file(tool, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("one")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(guarded_files.os, "fsync", full)
    with pytest.raises(ToolError, match="the disk is full"):
        edit(tool, "one", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "one"


def test_a_file_that_changes_between_reading_and_writing_is_left_alone(tool, tmp_path, monkeypatch):
    (tmp_path / "a").write_text("one")
    write = tool._workspace.write

    def late(*arguments):
        (tmp_path / "a").write_text("theirs")
        write(*arguments)

    monkeypatch.setattr(tool._workspace, "write", late)
    with pytest.raises(ToolError, match="changed it meanwhile"):
        edit(tool, "one", "two")
    assert (tmp_path / "a").read_text() == "theirs"


def test_old_is_judged_as_soon_as_it_closes_and_the_path_before(tool, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    for closed, arguments, words in [
        ("path", {"path": "/etc/passwd"}, "only written below"),
        ("path", {"path": "missing"}, "no such file"),
        ("old", {"path": "a", "old": "three"}, "old does not occur"),
        ("path", {"path": "a", "old": "three"}, "old does not occur"),
        ("old", {"path": "a", "old": "one[upto]"}, "nothing stands after"),
    ]:
        with pytest.raises(ToolError, match=words):
            tool.preflight(closed, arguments)
    tool.preflight("path", {"path": "a"})
    tool.preflight("old", {"old": "three"})
    tool.preflight("old", {"path": "a", "old": "one"})
    tool.preflight("new", {"path": "a", "old": "gone by now", "new": ""})


def test_a_good_head_is_known_by_the_file_as_it_is_now(tool, tmp_path):
    head = "def function(first, second):\n    third = first + second  # the sum of both\n"
    (tmp_path / "a").write_bytes((head + "    return third\n").replace("\n", "\r\n").encode())
    assert tool.may_skip("old", head, {"path": "a"})
    assert not tool.may_skip("new", head, {"path": "a"})
    assert not tool.may_skip("old", head, {})
    assert not tool.may_skip("old", head[:-1], {"path": "a"})
    assert not tool.may_skip("old", head, {"path": "missing"})
    assert not tool.may_skip("old", head, {"path": "/etc/passwd"})
    assert not tool.may_skip("old", head + "\ud800\n", {"path": "a"})
    (tmp_path / "a").write_text(head + head)
    assert not tool.may_skip("old", head, {"path": "a"})


def test_asking_again_and_again_in_a_large_file_is_quick(tool, tmp_path):
    (tmp_path / "a").write_text(numbered(1, 500_000))
    old = numbered(400_000, 400_200)
    began = time.process_time()
    for end in range(0, len(old), 20):
        tool.may_skip("old", old[:end], {"path": "a"})
    assert time.process_time() - began < 20


def test_a_hundred_thousand_lines_are_no_matter(tool, tmp_path):
    (tmp_path / "a").write_text(numbered(1, 100_000))
    began = time.process_time()
    edit(tool, "line 50\n[upto]\nline 99990\n", numbered(200_000, 299_000))
    with pytest.raises(ToolError, match="does not occur"):
        edit(tool, "  line 200000\nline 7\n", "")
    assert time.process_time() - began < 20


def test_a_question_shows_the_diff_or_what_is_wrong(tool, tmp_path):
    (tmp_path / "a").write_text("one\n")
    assert tool.detail(Arguments({"path": "a", "old": "one", "new": "two"})).endswith("-one\n+two\n")
    assert "does not occur" in tool.detail(Arguments({"path": "a", "old": "x", "new": "two"}))
    assert "path is missing" in tool.detail(Arguments({}))
    assert (tmp_path / "a").read_text() == "one\n"
    assert tool.summary(Arguments({"path": "a"})) == "Editing a"
    assert "git's own" in tool.risk(Arguments({"path": ".git/config"}))


@given(
    before=st.lists(st.sampled_from(["a", "b", "é", "\n", "\x85"]), max_size=20).map("".join),
    after=st.lists(st.sampled_from(["a", "c", "\n"]), max_size=6).map("".join),
    place=st.integers(0, 20),
    is_crlf=st.booleans(),
)
def test_all_but_the_place_stays_to_the_byte(tmp_path_factory, before, after, place, is_crlf):
    def ends(text):
        return (text.replace("\n", "\r\n") if is_crlf and "\n" in before[:place] + before[place:] else text).encode()

    folder = tmp_path_factory.mktemp("edit")
    (folder / "a").write_bytes(ends(before[:place] + "<old>" + before[place:]))
    outcome = edit(Edit(Workspace(folder)), "<old>", after)
    assert (folder / "a").read_bytes() == ends(before[:place] + after + before[place:])
    assert outcome.text.startswith("edited a: ")
