"""read and more: chunks, their headers, and that nothing is lost between them."""

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools.read import More, Place, Read, Reader, take
from whitedwarf.agent.workspace import Workspace

RAW_NOTE = re.compile(r"\n?\[lines \d+-\d+ of \d+;[^\n]*\]\Z")


class Tools:
    def __init__(self, folder, most_chars=1 << 18):
        self.folder = folder
        self.reader = Reader(Workspace(folder), most_chars)

    def read(self, **values):
        return Read(self.reader).run(Arguments(values), Running()).text

    def more(self, **values):
        return More(self.reader).run(Arguments(values), Running()).text


@pytest.fixture
def tools(tmp_path):
    return Tools(tmp_path)


def write_numbers(folder, count, name="a.txt"):
    (folder / name).write_text("".join(f"line {number}\n" for number in range(1, count + 1)))


def test_a_small_file_is_read_whole_with_numbers(tools, tmp_path):
    write_numbers(tmp_path, 3)
    assert tools.read(path="a.txt") == "a.txt: lines 1-3 of 3\n1 line 1\n2 line 2\n3 line 3"


def test_a_long_one_in_chunks_of_500_lines_that_more_goes_on_with(tools, tmp_path):
    write_numbers(tmp_path, 1100)
    first = tools.read(path="a.txt").split("\n")
    assert first[0] == "a.txt: lines 1-500 of 1100; continue_offset=501; call more to go on"
    assert (first[1], first[-1]) == ("1 line 1", "500 line 500")
    assert tools.more(count="2").split("\n") == [
        "a.txt: lines 501-502 of 1100; continue_offset=503; call more to go on",
        "501 line 501",
        "502 line 502",
    ]
    assert tools.more(count=10_000).split("\n")[0] == "a.txt: lines 503-1100 of 1100"


def test_start_line_max_lines_and_whole_are_heeded_also_as_strings(tools, tmp_path):
    write_numbers(tmp_path, 1100)
    assert tools.read(path="a.txt", start_line="7", max_lines="1").endswith("\n7 line 7")
    assert tools.read(path="a.txt", start_line=7, whole="true").startswith("a.txt: lines 7-1100 of 1100\n7 line 7\n8 ")


def test_raw_is_the_text_itself_and_a_note_where_more_follows(tools, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\n\ttwo\nthree")
    assert tools.read(path="a", raw=True) == "one\r\n\ttwo\nthree"
    assert tools.read(path="a", raw=True, max_lines=1) == (
        "one\r\n[lines 1-1 of 3; continue_offset=2; call more to go on]"
    )
    assert tools.more() == "\ttwo\nthree"


def test_what_the_lines_do_not_show_is_in_the_header(tools, tmp_path):
    (tmp_path / "crlf").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "mixed").write_bytes(b"one\r\ntwo\n")
    (tmp_path / "cut").write_bytes(b"one\ntwo")
    (tmp_path / "latin").write_bytes(b"caf\xe9 \xff\n")
    (tmp_path / "empty").write_bytes(b"")
    assert tools.read(path="crlf") == "crlf: lines 1-2 of 2; lines end with CR LF\n1 one\n2 two"
    assert "some lines end with CR LF and some with LF" in tools.read(path="mixed")
    assert tools.read(path="cut") == "cut: lines 1-2 of 2; no line end at the end\n1 one\n2 two"
    assert tools.read(path="latin") == (
        "latin: lines 1-1 of 1; 2 bytes are no UTF-8 and shown as \\xNN\n1 caf\\xe9 \\xff"
    )
    assert tools.read(path="empty") == "empty: lines 0-0 of 0; the file is empty"


def test_other_line_separators_end_no_line(tools, tmp_path):
    (tmp_path / "a").write_text("one\u2028two\x0cthree\x0b\x85\n", newline="")
    assert tools.read(path="a").startswith("a: lines 1-1 of 1")


def test_a_line_longer_than_an_answer_is_cut_and_gone_on_with(tmp_path):
    tools = Tools(tmp_path, most_chars=10)
    (tmp_path / "a").write_text("ab\n" + "x" * 15 + "y" * 4 + "\nend\n")
    assert tools.read(path="a").endswith("continue_offset=2; call more to go on\n1 ab")
    assert tools.more() == "a: lines 2-2 of 3; line 2 goes on at character 11; call more to go on\n2 " + "x" * 10
    assert tools.more() == (
        "a: lines 2-2 of 3; line 2 from character 11 on; continue_offset=3; call more to go on\n2 xxxxxyyyy"
    )
    assert tools.more() == "a: lines 3-3 of 3\n3 end"


def test_a_whole_that_is_too_much_says_what_to_do(tmp_path):
    tools = Tools(tmp_path, most_chars=100)
    write_numbers(tmp_path, 50)
    with pytest.raises(ToolError, match=r"too many to read whole; at most 100\. Read it in chunks"):
        tools.read(path="a.txt", whole=True)
    assert "50 of 50" in tools.read(path="a.txt", start_line=45, whole=True)


def test_more_without_a_reading_and_after_the_end_says_so(tools, tmp_path):
    with pytest.raises(ToolError, match="nothing to go on with; read a file first"):
        tools.more()
    write_numbers(tmp_path, 3)
    tools.read(path="a.txt")
    with pytest.raises(ToolError, match=r"a\.txt was read to its end"):
        tools.more()


def test_a_failed_reading_leaves_the_cursor(tools, tmp_path):
    write_numbers(tmp_path, 600)
    tools.read(path="a.txt")
    with pytest.raises(ToolError):
        tools.read(path="missing")
    assert tools.more().startswith("a.txt: lines 501-600 of 600")


def test_more_of_a_file_that_changed_says_so_and_one_that_became_short_is_refused(tools, tmp_path):
    write_numbers(tmp_path, 600)
    tools.read(path="a.txt")
    write_numbers(tmp_path, 501)
    assert tools.more().startswith("a.txt: lines 501-501 of 501; it changed since the last reading\n501")
    write_numbers(tmp_path, 600)
    tools.read(path="a.txt")
    write_numbers(tmp_path, 20)
    with pytest.raises(ToolError, match="is shorter now: 20 lines; read it again"):
        tools.more()


def test_a_line_behind_the_end_names_how_many_there_are(tools, tmp_path):
    write_numbers(tmp_path, 3)
    with pytest.raises(ToolError, match="has 3 lines; start_line 4 is behind its end"):
        tools.read(path="a.txt", start_line=4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "path is missing"),
        ({"path": "a.txt", "start_line": 0}, "start_line to be a number from 1"),
        ({"path": "a.txt", "max_lines": "many"}, "max_lines to be a number"),
        ({"path": "a.txt", "whole": "perhaps"}, "whole to be true or false"),
        ({"path": "missing"}, "missing: there is no such file or folder"),
        ({"path": "."}, "is a folder, not a regular file"),
        ({"path": "a.txt/b"}, "a part of the path is a file"),
        ({"path": ""}, "path is empty"),
        ({"path": "pipe"}, "is a pipe, not a regular file"),
        ({"path": "/dev/zero"}, "is a device, not a regular file"),
        ({"path": "binary"}, r"binary file \(NUL at byte 2\)"),
        ({"path": "huge"}, r"has 16\.0 MiB, and at most 16 MiB"),
        ({"path": "loop"}, "symlink"),
        ({"path": "x" * 300}, "name is too long"),
        ({"path": "~nobody-of-this-name/x"}, "is no path"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(tools, tmp_path, values, words):
    write_numbers(tmp_path, 3)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"ab\0cd\n")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((16 << 20) + 1)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=words):
        tools.read(**values)


def test_a_file_that_says_nothing_of_its_size_is_read_up_to_the_limit(tools):
    assert tools.read(path="/proc/self/status").startswith("/proc/self/status: lines 1-")


def test_a_hundred_thousand_lines_are_no_matter(tools, tmp_path):
    write_numbers(tmp_path, 100_000)
    assert tools.read(path="a.txt", start_line=99_999).endswith("\n100000 line 100000")


def test_the_summaries_say_what_is_read_and_never_raise(tools, tmp_path):
    write_numbers(tmp_path, 600)
    say = Read(tools.reader).summary
    assert say(Arguments({"path": "a.txt"})) == "Reading a.txt 1:500"
    assert say(Arguments({"path": "a.txt", "start_line": "3", "max_lines": "4"})) == "Reading a.txt 3:6"
    assert say(Arguments({"path": "a.txt", "whole": True})) == "Reading all of a.txt"
    assert say(Arguments({"path": "a\x1b[2J", "max_lines": "x"})) == "Reading a\\x1b[2J"
    assert say(Arguments({"path": ["odd"]})).startswith("Reading ")
    assert More(tools.reader).summary(Arguments({})) == "Reading on"
    tools.read(path="a.txt")
    assert More(tools.reader).summary(Arguments({})) == "Reading on in a.txt from line 501"


@given(
    data=st.lists(st.sampled_from([b"ab", b"\n", b"\r\n", b"\xff", "é".encode(), b"x" * 30]), max_size=60).map(
        b"".join
    ),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    most_chars=st.integers(8, 60),
)
@settings(max_examples=150)
def test_read_and_more_in_any_chunking_give_the_whole_file(tmp_path_factory, data, counts, most_chars):
    folder = tmp_path_factory.mktemp("whole")
    (folder / "a").write_bytes(data)
    tools = Tools(folder, most_chars)
    whole = data.decode("utf-8", "backslashreplace")
    texts = [tools.read(path="a", raw=True, max_lines=counts[0])]
    while tools.reader.next_path:
        texts.append(tools.more(count=counts[len(texts) % len(counts)]))
    bare = [RAW_NOTE.sub("", text) for text in texts]
    assert "".join(bare).replace("\n", "").replace("\r", "") == whole.replace("\n", "").replace("\r", "")


@given(
    lines=st.lists(st.text("ab", max_size=12).map(lambda text: text + "\n"), max_size=20),
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    most_chars=st.integers(1, 25),
)
def test_pieces_join_to_the_text_whatever_their_sizes(lines, counts, most_chars):
    place, text, pieces = Place(0), "", 0
    while place is not None:
        piece = take(lines, place, counts[pieces % len(counts)], most_chars)
        assert piece.texts or not lines
        assert sum(map(len, piece.texts)) <= most_chars
        text += "".join(piece.texts)
        place, pieces = piece.after, pieces + 1
    assert text == "".join(lines)
