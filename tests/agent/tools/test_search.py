"""search: what is found and how it is told, what is left out, and that no pattern holds the agent up."""

import contextlib
import errno
import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools import searching
from whitedwarf.agent.tools.search import Search
from whitedwarf.agent.tools.searching import Ending, Query, python_pattern
from whitedwarf.agent.workspace import Workspace


def found(folder, query, running=None, time_limit_s=20.0, **values):
    tool = Search(Workspace(folder), time_limit_s)
    return tool.run(Arguments({"query": query, **values}), running or Running()).text


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "a.py").write_text("import os\nx = 1\nimport re\n")
    (tmp_path / "src/b.py").write_text("nothing\nIMPORT\n")
    (tmp_path / "src/deep/c.txt").write_text("no end of import")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("import\n")
    (tmp_path / "binary").write_bytes(b"import\0\n")
    (tmp_path / "link.py").symlink_to("a.py")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_matches_come_by_file_with_their_lines(tree):
    assert found(tree, "import") == (
        '3 matches for "import" in . (2 files)\n'
        "a.py\n  1 import os\n  3 import re\n"
        "src/deep/c.txt\n  1 no end of import"
    )


@pytest.mark.parametrize("mode", ["literal", "regex"])
def test_case_may_be_ignored(tree, mode):
    text = found(tree, "import", mode=mode, case_sensitive="false")
    assert text.startswith("4 matches")
    assert "src/b.py\n  2 IMPORT" in text


def test_a_regular_expression_finds_by_line_and_a_literal_means_itself(tree):
    assert found(tree, "^x = [[:digit:]]$", mode="regex").endswith("a.py\n  2 x = 1")
    assert found(tree, "x = [0-9]") == 'No matches for "x = [0-9]" in .'


def test_a_path_may_be_a_folder_or_a_file_and_names_are_as_read_wants_them(tree):
    assert "src/deep/c.txt\n" in found(tree, "import", path="src")
    assert "src/deep/c.txt\n" in found(tree, "import", path="./src/").replace("./", "")
    assert found(tree, "import", path="a.py").startswith('2 matches for "import" in a.py (1 file)\na.py\n  1')
    assert "\n/" in found(tree, "import", path=str(tree / "src"))


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py"]),
        ("*.txt", ["src/deep/c.txt"]),
        ("src/**/*.txt", ["src/deep/c.txt"]),
        ("src/deep/*", ["src/deep/c.txt"]),
        ("deep/*", []),
        ("", ["a.py", "src/deep/c.txt"]),
    ],
)
def test_a_glob_is_of_the_name_or_of_the_path(tree, glob, files):
    rows = found(tree, "import", glob=glob).split("\n")[1:]
    assert [row for row in rows if not row.startswith("  ")] == files


def test_context_lines_do_not_overlap(tmp_path):
    (tmp_path / "a").write_text("".join(f"{n}{' hit' if n in (2, 4, 9) else ''}\n" for n in range(1, 13)))
    assert found(tmp_path, "hit", context=1).split("\n")[2:] == [
        "  1- 1",
        "  2 2 hit",
        "  3- 3",
        "  4 4 hit",
        "  5- 5",
        "  --",
        "  8- 8",
        "  9 9 hit",
        "  10- 10",
    ]


def test_results_are_capped_and_the_cap_is_told_only_where_there_is_more(tmp_path):
    (tmp_path / "a").write_text("hit\n" * 60)
    assert found(tmp_path, "hit").endswith("  50 hit\n[there are more matches; these are the first 50]")
    assert found(tmp_path, "hit", max_results=60).endswith("  60 hit")
    (tmp_path / "b").write_text("hit\n")
    assert found(tmp_path, "hit", max_results=60).endswith("[there are more matches; these are the first 60]")


def test_long_lines_are_shown_around_the_match(tmp_path):
    (tmp_path / "a").write_text("x" * 5000 + "needle" + "y" * 5000 + "\n")
    row = found(tmp_path, "needle").split("\n")[2]
    assert row.startswith("  1 ...x")
    assert "needle" in row
    assert row.endswith("y...")
    assert len(row) < 400


def test_more_text_than_an_answer_holds_is_cut_with_a_note(tmp_path):
    for number in range(4):
        (tmp_path / str(number)).write_text(("hit " + "x" * 290 + "\n") * 125)
    assert found(tmp_path, "hit", max_results=500).endswith("[more text than can be shown; narrow the search]")


def test_the_empty_line_after_the_last_line_end_is_none(tmp_path):
    (tmp_path / "a").write_text("one\n\ntwo\n")
    assert found(tmp_path, "^$", mode="regex").endswith("a\n  2 ")


def test_cr_is_no_part_of_a_line(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    assert found(tmp_path, "two$", mode="regex").endswith("\n  2 two")


def test_bytes_that_are_no_utf8_are_searched_as_they_are_shown(tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9\n")
    assert found(tmp_path, "\\xe9").endswith("  1 caf\\xe9")


def test_what_was_left_out_is_told(tmp_path, monkeypatch):
    deep = tmp_path / "/".join("d" * 26)
    deep.mkdir(parents=True)
    (deep / "a").write_text("hit")
    (deep.parent.parent / "b").write_text("hit")
    with (tmp_path / "large").open("wb") as file:
        file.truncate((16 << 20) + 1)
    real_scandir = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_scandir(path)

    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(searching.os, "scandir", scandir)
    text = found(tmp_path, "hit")
    assert text.startswith("1 match ")
    assert "[1 files above 16 MiB were left out]" in text
    assert "[1 files or folders could not be read]" in text
    assert "[1 folders deeper than 24 levels were left out]" in text


def test_files_of_the_kernel_hold_nothing_up(tmp_path):
    began = time.monotonic()
    found(tmp_path, "needle", path="/proc/sys/kernel", time_limit_s=5.0)
    for path in ("/proc/kmsg", "/proc/self/mem"):
        found(tmp_path, "needle", path=path, time_limit_s=5.0)
        with contextlib.suppress(ToolError):
            Workspace(tmp_path).read(path)
    assert time.monotonic() - began < 60


def test_a_catastrophic_pattern_is_ended_and_what_was_found_before_is_told(tmp_path):
    (tmp_path / "a").write_text("aaa\n")
    (tmp_path / "b").write_text("a" * 200 + "!\n")
    began = time.monotonic()
    text = found(tmp_path, "^(a+)+$", mode="regex", time_limit_s=1.0)
    assert time.monotonic() - began < 18
    assert text.startswith("1 match ")
    assert "a\n  1 aaa\n[not everything was searched: it took too long; search fewer files" in text


@pytest.mark.parametrize("mode", ["literal", "regex"])
def test_an_interruption_ends_it(tmp_path, mode):
    (tmp_path / "a").write_text("a" * 200 + "!\n")
    running = Running()
    threading.Timer(0.3, running.interrupted.set).start()
    if mode == "literal":
        running.interrupted.wait()
    began = time.monotonic()
    text = found(tmp_path, "(a+)+$", running, mode=mode)
    assert time.monotonic() - began < 18
    assert "not everything was searched: the user interrupted it" in text


def test_many_files_without_a_match_end_at_the_limit_too(tmp_path):
    (tmp_path / "a").write_text("x")
    assert "it took too long" in found(tmp_path, "hit", time_limit_s=-1.0)


def test_a_hundred_thousand_lines_are_no_matter(tmp_path):
    (tmp_path / "a").write_text("".join(f"line {number}\n" for number in range(100_000)))
    for mode in ("literal", "regex"):
        assert found(tmp_path, "line 99999", mode=mode).endswith("  100000 line 99999")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "query is missing"),
        ({"query": ""}, "query is empty"),
        ({"query": "a\nb"}, "query has a line break"),
        ({"query": "x" * 5000}, "5000 characters; at most 4096"),
        ({"query": "(", "mode": "regex"}, r"no regular expression \(missing \)"),
        ({"query": "a{99999999999}", "mode": "regex"}, "no regular expression"),
        ({"query": "(" * 2000 + ")" * 2000, "mode": "regex"}, "no regular expression"),
        ({"query": "x", "mode": "glob"}, "mode to be literal or regex, got 'glob'"),
        ({"query": "x", "context": 6}, "context to be a number from 0 to 5"),
        ({"query": "x", "max_results": 501}, "max_results to be a number from 1 to 500"),
        ({"query": "x", "case_sensitive": "x"}, "case_sensitive to be true or false"),
        ({"query": "x", "path": "missing"}, "missing: cannot be searched"),
    ],
)
def test_odd_parameters_are_refused_with_the_reason(tmp_path, values, words):
    with pytest.raises(ToolError, match=words):
        Search(Workspace(tmp_path)).run(Arguments(values), Running())


def test_a_strict_workspace_is_not_left(tmp_path):
    with pytest.raises(ToolError, match="outside"):
        Search(Workspace(tmp_path, is_strict=True)).run(Arguments({"query": "x", "path": "/etc"}), Running())


def test_a_process_that_dies_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "__file__", str(tmp_path / "missing.py"))
    assert "[the search broke off]" in found(tmp_path, "x", mode="regex")


def test_the_names_of_posix_classes_are_known():
    assert python_pattern("[[:alpha:]_]+[[:odd:]]") == "[a-zA-Z_]+[[:odd:]]"


@given(st.lists(st.text("ab\n\r", max_size=6), max_size=5), st.text("ab", min_size=1, max_size=2), st.integers(0, 3))
def test_every_line_with_the_text_is_found_once(tmp_path_factory, texts, needle, context):
    folder = tmp_path_factory.mktemp("search")
    for number, text in enumerate(texts):
        (folder / str(number)).write_bytes(text.encode())
    *files, ending = searching.search(Query(str(folder), needle, context=context))
    assert ending == Ending()
    rows = [(file.path, line) for file in files for line, _, is_match in file.rows if is_match]
    assert rows == [
        (str(number), line + 1)
        for number, text in enumerate(texts)
        for line, content in enumerate(text.split("\n"))
        if needle in content
    ]
    for file in files:
        assert len({line for line, _, _ in file.rows}) == len(file.rows)
