"""write: what is told, what a question shows, and what stays as it was."""

import pytest

from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools.write import Write
from whitedwarf.agent.workspace import Workspace


@pytest.fixture
def tool(tmp_path):
    return Write(Workspace(tmp_path))


def write(tool, path, content):
    return tool.run(Arguments({"path": path, "content": content}), Running())


def test_a_new_file_is_reported_with_its_bytes_and_a_diff(tool, tmp_path):
    outcome = write(tool, "src/a.py", "é = 1\n")
    assert outcome.text == "wrote 7 bytes to src/a.py (created)"
    assert outcome.diff == "--- /dev/null\n+++ b/src/a.py\n@@ -0,0 +1 @@\n+é = 1\n"
    assert (tmp_path / "src/a.py").read_bytes() == "é = 1\n".encode()


def test_an_old_one_is_overwritten_with_a_diff(tool, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    outcome = write(tool, "a", "one\nthree")
    assert outcome.text == "wrote 9 bytes to a (overwritten)"
    assert outcome.diff == ("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n")


def test_the_same_again_says_so(tool, tmp_path):
    (tmp_path / "a").write_text("one\n")
    outcome = write(tool, "a", "one\n")
    assert (outcome.text, outcome.diff) == ("wrote 4 bytes to a (it held the same already)", "")


def test_cr_lf_is_kept_unless_the_content_brings_its_own(tool, tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\n")
    assert "CR LF as before" in write(tool, "a", "one\n2\n").text
    assert (tmp_path / "a").read_bytes() == b"one\r\n2\r\n"
    write(tool, "a", "1\r\n2\n")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\n"


def test_content_may_be_empty_a_number_or_hold_nul(tool, tmp_path):
    assert write(tool, "a", "").text == "wrote 0 bytes to a (created)"
    write(tool, "b", 42)
    write(tool, "c", "\0")
    assert ((tmp_path / "b").read_bytes(), (tmp_path / "c").read_bytes()) == (b"42", b"\0")


def test_a_question_shows_the_diff_and_changes_nothing(tool, tmp_path):
    (tmp_path / "a").write_text("one\n")
    assert tool.detail(Arguments({"path": "a", "content": "two\n"})).endswith("-one\n+two\n")
    assert "only written below" in tool.detail(Arguments({"path": "/etc/x", "content": ""}))
    assert "path is missing" in tool.detail(Arguments({}))
    assert (tmp_path / "a").read_text() == "one\n"
    assert "git's own" in tool.risk(Arguments({"path": ".git/config"}))
    assert tool.summary(Arguments({"path": "a"})) == "Writing a"


@pytest.mark.parametrize("path", ["/etc/x", "../x", ".", "folder", ""])
def test_a_wrong_path_is_refused_before_the_content_is_written(tool, tmp_path, path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolError):
        tool.preflight("path", {"path": path})
    with pytest.raises(ToolError):
        write(tool, path, "x")


def test_a_right_one_is_not(tool):
    tool.preflight("path", {"path": "new/a"})
    tool.preflight("content", {"path": "new/a", "content": "x"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"content": "x"}, "path is missing"),
        ({"path": "a"}, "content is missing"),
        ({"path": "a", "content": ["x"]}, "content to be a string"),
        ({"path": "a", "content": "\ud800"}, "half of a surrogate pair at character 1"),
    ],
)
def test_missing_and_odd_parameters_are_named(tool, tmp_path, values, words):
    with pytest.raises(ToolError, match=words):
        tool.run(Arguments(values), Running())
    assert list(tmp_path.iterdir()) == []
